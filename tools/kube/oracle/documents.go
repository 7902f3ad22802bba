package main

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

type yamlQuestion struct {
	Text   string `json:"text"`
	Strict bool   `json:"strict"`
}

// yamlToJSON answers with the JSON as text: how a number is written is part of the answer.
func yamlToJSON(q yamlQuestion) (any, error) {
	convert := yaml.YAMLToJSON
	if q.Strict {
		convert = yaml.YAMLToJSONStrict
	}
	out, err := convert([]byte(q.Text))
	if err != nil {
		return nil, err
	}
	return map[string]string{"json": string(out)}, nil
}

type patchQuestion struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Document   json.RawMessage `json:"document"`
	Patch      json.RawMessage `json:"patch"`
}

func jsonMergePatch(q patchQuestion) (any, error) {
	out, err := jsonpatch.MergePatch(q.Document, q.Patch)
	if err != nil {
		return nil, err
	}
	return map[string]json.RawMessage{"document": out}, nil
}

// strategicMergePatch knows the merge keys of every kind that client-go knows.
func strategicMergePatch(q patchQuestion) (any, error) {
	group, err := schema.ParseGroupVersion(q.APIVersion)
	if err != nil {
		return nil, err
	}
	example, err := scheme.Scheme.New(group.WithKind(q.Kind))
	if err != nil {
		return nil, fmt.Errorf("apiVersion %q kind %q: %w", q.APIVersion, q.Kind, err)
	}
	out, err := strategicpatch.StrategicMergePatch(q.Document, q.Patch, example)
	if err != nil {
		return nil, err
	}
	return map[string]json.RawMessage{"document": out}, nil
}
