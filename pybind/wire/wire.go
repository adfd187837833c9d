// SPDX-License-Identifier: Apache-2.0

// Package wire says what crosses the border to Python, once: a struct is a message, and its fields are the message's.
// A package that keeps what crosses in the same form has the messages itself, as ledger does; the others are here.
//
// pybind/build/generate_wire.py writes the Python side: named tuples with the same names, comments and order. So a new
// field is added to its struct, filled in where the message is made, and used; there is no third place that could
// disagree.
//
// # Rules
//
//  1. A message is a list of its fields' values, in order: names cross once, when the two sides are built. The fields
//     of an embedded struct are the message's own. A field whose name is "-" stays in Go.
//  2. A field has a type that both languages have: string, bool, numbers, messages, slices, arrays, maps with string
//     keys. A pointer is a value that may be missing, which is None in Python. What has a method String is its text.
//  3. A comment says what Python's users read. Sizes are bytes unless it says otherwise.
//  4. Both sides are of one build, so there is no version. What is stored on disk has its own format (package ledger,
//     gocore/lease/budget).
package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"gpuconf/gocore/base/status"
)

// Encode returns a message, or a list of messages, as JSON.
func Encode(message any) (string, error) {
	text, err := appendValue(nil, reflect.ValueOf(message))
	if err != nil {
		return "", status.Errorf(status.Internal, "encoding %T: %w", message, err)
	}
	return string(text), nil
}

// List is a message that is a part of another text.
type List struct {
	Message any // as for Encode
}

// MarshalJSON implements json.Marshaler.
func (l List) MarshalJSON() ([]byte, error) { return appendValue(nil, reflect.ValueOf(l.Message)) }

func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.Invalid: // nil
		return append(b, "null"...), nil
	case reflect.Struct:
		fields := fieldsOf(v.Type())
		return appendList(b, len(fields), func(i int) reflect.Value { return v.FieldByIndex(fields[i]) })
	case reflect.Array, reflect.Uint8, reflect.Uint16:
		if named, ok := v.Interface().(fmt.Stringer); ok {
			return appendJSON(b, named.String())
		}
		if v.Kind() != reflect.Array {
			return strconv.AppendUint(b, v.Uint(), 10), nil
		}
		return appendList(b, v.Len(), v.Index)
	case reflect.Slice:
		return appendList(b, v.Len(), v.Index)
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return appendValue(b, v.Elem())
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	}
	return appendJSON(b, v.Interface())
}

func appendJSON(b []byte, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(b, text...), err
}

// fields has the fields of each type that cross, as fieldsOf returns them: to look them up takes longer than to write
// their values.
var fields sync.Map

// fieldsOf returns the fields that cross, by their indexes.
func fieldsOf(t reflect.Type) [][]int {
	if known, ok := fields.Load(t); ok {
		return known.([][]int)
	}
	var indexes [][]int
	for _, field := range reflect.VisibleFields(t) {
		if !field.Anonymous && field.Tag.Get("py") != "-" {
			indexes = append(indexes, field.Index)
		}
	}
	fields.Store(t, indexes)
	return indexes
}

func appendList(b []byte, count int, item func(int) reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range count {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, item(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// Decode reads a message that Python's side of this package wrote.
func Decode(text string, message any) error {
	if err := fill(reflect.ValueOf(message).Elem(), json.RawMessage(text)); err != nil {
		return status.Errorf(status.Internal, "decoding %T: %w", message, err)
	}
	return nil
}

// fill sets v to what a text says.
func fill(v reflect.Value, text json.RawMessage) error {
	switch v.Kind() {
	case reflect.Struct:
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		fields := fieldsOf(v.Type())
		if len(list) != len(fields) {
			return status.Errorf(status.Internal, "%s has %d fields, not %d", v.Type(), len(fields), len(list))
		}
		for i := range list {
			if err := fill(v.FieldByIndex(fields[i]), list[i]); err != nil {
				return err
			}
		}
		return nil
	case reflect.Pointer:
		if string(text) == "null" {
			v.SetZero()
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem(), text)
	case reflect.Slice:
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i := range list {
			if err := fill(v.Index(i), list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// Maybe returns a pointer to a value, or nil if it is the one that stands for none.
func Maybe[T comparable](value, none T) *T {
	if value == none {
		return nil
	}
	return &value
}
