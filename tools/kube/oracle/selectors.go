package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

type matchAnswer struct {
	Match  bool   `json:"match"`
	String string `json:"string"`
}

type labelSelectorQuestion struct {
	Selector string     `json:"selector"`
	Labels   labels.Set `json:"labels"`
}

func labelSelector(q labelSelectorQuestion) (any, error) {
	selector, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, err
	}
	return matchAnswer{Match: selector.Matches(q.Labels), String: selector.String()}, nil
}

type labelSelectorObjectQuestion struct {
	Selector *metav1.LabelSelector `json:"selector"`
	Labels   labels.Set            `json:"labels"`
}

func labelSelectorObject(q labelSelectorObjectQuestion) (any, error) {
	selector, err := metav1.LabelSelectorAsSelector(q.Selector)
	if err != nil {
		return nil, err
	}
	return matchAnswer{Match: selector.Matches(q.Labels), String: selector.String()}, nil
}

type fieldSelectorQuestion struct {
	Selector string     `json:"selector"`
	Fields   fields.Set `json:"fields"`
}

func fieldSelector(q fieldSelectorQuestion) (any, error) {
	selector, err := fields.ParseSelector(q.Selector)
	if err != nil {
		return nil, err
	}
	return matchAnswer{Match: selector.Matches(q.Fields), String: selector.String()}, nil
}

type nodeSelectorQuestion struct {
	Selector *v1.NodeSelector `json:"selector"`
	Node     *v1.Node         `json:"node"`
}

// nodeSelectorTerm matches as the default scheduler does: a bad term is an error only where no good one matches.
func nodeSelectorTerm(q nodeSelectorQuestion) (any, error) {
	if q.Selector == nil || q.Node == nil {
		return nil, fmt.Errorf("selector and node are both needed")
	}
	match, err := nodeaffinity.NewLazyErrorNodeSelector(q.Selector).Match(q.Node)
	if err != nil {
		return nil, err
	}
	return map[string]bool{"match": match}, nil
}
