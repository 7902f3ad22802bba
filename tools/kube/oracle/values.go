package main

import (
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // cron zones must not depend on the machine

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type quantityQuestion struct {
	Value string `json:"value"`
}

type quantityAnswer struct {
	String     string `json:"string"`
	Dec        string `json:"dec"`
	Value      int64  `json:"value"`
	MilliValue int64  `json:"milliValue"`
}

func describe(q resource.Quantity) quantityAnswer {
	a := quantityAnswer{Value: q.Value(), MilliValue: q.MilliValue(), String: q.String()}
	a.Dec = q.AsDec().String() // last: AsDec changes how q keeps its number
	return a
}

func quantity(q quantityQuestion) (any, error) {
	parsed, err := resource.ParseQuantity(q.Value)
	if err != nil {
		return nil, err
	}
	return describe(parsed), nil
}

type quantityPairQuestion struct {
	A string `json:"a"`
	B string `json:"b"`
}

func (q quantityPairQuestion) parse() (a, b resource.Quantity, err error) {
	if a, err = resource.ParseQuantity(q.A); err != nil {
		return a, b, fmt.Errorf("a: %w", err)
	}
	if b, err = resource.ParseQuantity(q.B); err != nil {
		return a, b, fmt.Errorf("b: %w", err)
	}
	return a, b, nil
}

func quantityCmp(q quantityPairQuestion) (any, error) {
	a, b, err := q.parse()
	if err != nil {
		return nil, err
	}
	return map[string]int{"cmp": a.Cmp(b)}, nil
}

func quantityAdd(q quantityPairQuestion) (any, error) {
	a, b, err := q.parse()
	if err != nil {
		return nil, err
	}
	a.Add(b)
	return describe(a), nil
}

type durationQuestion struct {
	Value string `json:"value"`
}

func duration(q durationQuestion) (any, error) {
	d, err := time.ParseDuration(q.Value)
	if err != nil {
		return nil, err
	}
	return map[string]any{"nanoseconds": d.Nanoseconds(), "string": d.String()}, nil
}

type timeQuestion struct {
	Value string `json:"value"`
	Micro bool   `json:"micro"`
}

// timestamp decodes the text as a metav1.Time (or MicroTime) and prints it again as Kubernetes would.
func timestamp(q timeQuestion) (any, error) {
	text, err := json.Marshal(q.Value)
	if err != nil {
		return nil, err
	}
	var instant time.Time
	var printed []byte
	if q.Micro {
		var t metav1.MicroTime
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		instant = t.Time
		printed, err = json.Marshal(t)
	} else {
		var t metav1.Time
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		instant = t.Time
		printed, err = json.Marshal(t)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"printed":     json.RawMessage(printed),
		"seconds":     instant.Unix(),
		"nanoseconds": instant.Nanosecond(),
	}, nil
}

type cronQuestion struct {
	Spec     string    `json:"spec"`
	TimeZone string    `json:"tz"`
	From     time.Time `json:"from"`
	Count    int       `json:"n"`
}

const cronCountMax = 10_000

// cronNext lists the next instants; fewer than asked for means that the schedule never fires again.
func cronNext(q cronQuestion) (any, error) {
	if q.Count < 1 || q.Count > cronCountMax {
		return nil, fmt.Errorf("n is %d: ask for 1 to %d instants", q.Count, cronCountMax)
	}
	spec := q.Spec
	if q.TimeZone != "" {
		if _, err := time.LoadLocation(q.TimeZone); err != nil {
			return nil, err
		}
		spec = fmt.Sprintf("TZ=%s %s", q.TimeZone, spec)
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, err
	}
	next := []string{}
	for t := schedule.Next(q.From.UTC()); !t.IsZero() && len(next) < q.Count; t = schedule.Next(t) {
		next = append(next, t.UTC().Format(time.RFC3339))
	}
	return map[string]any{"next": next}, nil
}
