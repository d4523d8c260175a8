package responder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// ParseJSON decodes exactly one value in UTF-8; numbers stay json.Number.
func ParseJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // snapshot ids do not fit a float
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// match holds a value to the part of JSON Schema that docs/api/README.md names.
func (r *Responder) match(at string, schema map[string]any, value any) (faults []string) {
	bad := func(format string, args ...any) {
		faults = append(faults, place(at)+": "+fmt.Sprintf(format, args...))
	}
	if ref, ok := schema["$ref"].(string); ok {
		def, known := r.Defs[strings.TrimPrefix(ref, "#/$defs/")]
		if !known {
			bad("%s is not defined", ref)
			return faults
		}
		return r.match(at, def, value)
	}
	if want, ok := schema["type"]; ok && !hasType(want, value) {
		bad("%T is not %v", value, want)
		return faults
	}
	if want, ok := schema["const"]; ok && fmt.Sprint(want) != fmt.Sprint(value) {
		bad("%v is not %v", value, want)
	}
	if want, ok := schema["enum"].([]any); ok && !slices.Contains(want, value) {
		bad("%v is none of %v", value, want)
	}
	switch v := value.(type) {
	case string:
		if p, ok := schema["pattern"].(string); ok && !r.pattern(p).MatchString(v) {
			bad("%q does not match %s", v, p)
		}
		if least, ok := schema["minLength"].(float64); ok && utf8.RuneCountInString(v) < int(least) {
			bad("%q is too short", v)
		}
	case json.Number:
		n, _ := v.Float64()
		if least, ok := schema["minimum"].(float64); ok && n < least {
			bad("%v is below %v", v, least)
		}
		if most, ok := schema["maximum"].(float64); ok && n > most {
			bad("%v is above %v", v, most)
		}
	case []any:
		if least, ok := schema["minItems"].(float64); ok && len(v) < int(least) {
			bad("%d items", len(v))
		}
		if items, ok := schema["items"].(map[string]any); ok {
			for i, item := range v {
				faults = append(faults, r.match(fmt.Sprintf("%s[%d]", at, i), items, item)...)
			}
		}
	case map[string]any:
		faults = append(faults, r.matchObject(at, schema, v)...)
	}
	return faults
}

func (r *Responder) matchObject(at string, schema, value map[string]any) (faults []string) {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := value[name.(string)]; !ok {
			faults = append(faults, fmt.Sprintf("%s: %s is missing", place(at), name))
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if p, ok := properties[name].(map[string]any); ok {
			faults = append(faults, r.match(at+"."+name, p, value[name])...)
			continue
		}
		switch more := schema["additionalProperties"].(type) {
		case map[string]any:
			faults = append(faults, r.match(at+"."+name, more, value[name])...)
		case bool:
			if !more {
				faults = append(faults, fmt.Sprintf("%s: %s is unknown", place(at), name))
			}
		}
	}
	return faults
}

func place(at string) string {
	if at == "" {
		return "the answer"
	}
	return at
}

// pattern compiles each pattern once.
func (r *Responder) pattern(text string) *regexp.Regexp {
	if known, ok := r.patterns.Load(text); ok {
		return known.(*regexp.Regexp)
	}
	compiled := regexp.MustCompile(text)
	r.patterns.Store(text, compiled)
	return compiled
}

func hasType(want, value any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return hasType(one, value) })
	}
	switch v := value.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case json.Number:
		f, err := v.Float64()
		return want == "number" || want == "integer" && err == nil && f == math.Trunc(f)
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	}
	return false
}
