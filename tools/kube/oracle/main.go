// Command oracle answers what Kubernetes' own libraries say, for differential tests.
//
// One JSON object a line comes in, one goes out, in order:
//
//	{"id": 1, "op": "quantity", "value": "1.5Gi"}
//	{"id": 1, "ok": {"string": "1536Mi", ...}}      or      {"id": 1, "error": "..."}
//
// The operations and their fields are the structs named ...Question in values.go, selectors.go and documents.go.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// lineBytesMax bounds one question: documents to patch are the largest, and an API server takes 3 MiB of them.
const lineBytesMax = 8 << 20

type question struct {
	ID json.RawMessage `json:"id"`
	Op string          `json:"op"`
}

type answer struct {
	ID    json.RawMessage `json:"id"`
	OK    any             `json:"ok,omitempty"`
	Error string          `json:"error,omitempty"`
}

// operation decodes its own fields from the whole line.
type operation func(line []byte) (any, error)

var operations = map[string]operation{
	"quantity":              ask(quantity),
	"quantity_cmp":          ask(quantityCmp),
	"quantity_add":          ask(quantityAdd),
	"label_selector":        ask(labelSelector),
	"label_selector_object": ask(labelSelectorObject),
	"field_selector":        ask(fieldSelector),
	"node_selector_term":    ask(nodeSelectorTerm),
	"duration":              ask(duration),
	"time":                  ask(timestamp),
	"cron":                  ask(cronNext),
	"yaml":                  ask(yamlToJSON),
	"json_merge_patch":      ask(jsonMergePatch),
	"strategic_merge_patch": ask(strategicMergePatch),
}

func ask[Q any](f func(Q) (any, error)) operation {
	return func(line []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(line, &q); err != nil {
			return nil, fmt.Errorf("the question's fields: %w", err)
		}
		return f(q)
	}
}

func reply(line []byte) (a answer) {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{ID: json.RawMessage("null"), Error: fmt.Sprintf("not a question: %v", err)}
	}
	a.ID = q.ID
	// A library that panics on an input has answered too: the test wants to see it, and the next question still counts.
	defer func() {
		if r := recover(); r != nil {
			a.OK, a.Error = nil, fmt.Sprintf("panic: %v", r)
		}
	}()
	op, known := operations[q.Op]
	if !known {
		a.Error = fmt.Sprintf("unknown op %q", q.Op)
		return a
	}
	result, err := op(line)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.OK = result
	return a
}

func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), lineBytesMax)
	// Flushing with every line lets a caller ask one question at a time; a batch pays a system call a line.
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		if err := encoder.Encode(reply(lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a question is longer than %d bytes", lineBytesMax)
		}
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
