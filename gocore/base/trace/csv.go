// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpuconf/gocore/base/status"
)

// Header is the line above FormatLines's output.
const Header = "Thread,Time,Action,Pointer,Size,Stream,GPU,HolderID,StackID,Block,Before,Pool"

// FormatLines formats events, one a line, with times in seconds since 1970. It includes all actions. Holders and stacks
// are numbers; the files that users see have text in their place, which Python writes.
func FormatLines(events []Event) string {
	text := make([]byte, 0, 64*len(events))
	for _, e := range events {
		text = append(strconv.AppendUint(text, e.Thread, 10), ',')
		text = append(strconv.AppendInt(text, e.Micros/1e6, 10), '.')
		fraction := strconv.AppendInt(nil, 1e6+e.Micros%1e6, 10)
		text = append(append(text, fraction[1:]...), ',')
		text = append(append(text, e.Action.String()...), ",0x"...)
		text = append(strconv.AppendUint(text, e.Addr, 16), ',')
		text = append(strconv.AppendUint(text, e.Bytes, 10), ',')
		if e.Stream != 0 {
			text = append(text, "0x"...) // as RMM does; it writes the default stream as 0
		}
		text = append(strconv.AppendUint(text, e.Stream, 16), ',')
		text = append(strconv.AppendInt(text, int64(e.GPU), 10), ',')
		text = append(strconv.AppendUint(text, uint64(e.Holder), 10), ',')
		text = append(strconv.AppendUint(text, uint64(e.Stack), 10), ',')
		if e.Block != 0 {
			text = strconv.AppendUint(text, e.Block, 10)
		}
		text = append(text, ',')
		if e.Before {
			text = append(text, '1')
		}
		text = append(text, ',')
		if e.Pool != 0 {
			text = strconv.AppendUint(text, uint64(e.Pool), 10)
		}
		text = append(text, '\n')
	}
	return string(text)
}

// The columns that are read, in any order. The first three are required. Our own lines have more: an empty Block is
// unknown, an empty Before is no, and an empty Pool the default one.
var (
	columns    = []string{"Action", "Pointer", "Size", "Thread", "Time", "Stream", "GPU", "Library", "Tag", "Stack"}
	ownColumns = slices.Concat(columns, []string{"HolderID", "StackID", "Block", "Before", "Pool"})
)

const (
	mostGPUs   = 1 << 10 // GPU numbers are below this
	mostBytes  = 1<<63 - 1
	secondsDay = 24 * 60 * 60

	mostSeconds = 1 << 33 // since 1970
	mostColumns = 1 << 10
)

// ParseCSV reads the output of RMM's logging adaptor and of FormatLines below Header. Columns are found by name;
// unknown columns are skipped.
//
//   - An action is "allocate", "allocate failure", "free", its synonym "deallocate", or a segment action.
//   - A pointer is hexadecimal, with or without 0x, or "(nil)".
//   - A stream is hexadecimal with 0x, decimal, or "default".
//   - A time is HH:MM:SS.ffffff (HH:MM:SS:ffffff in some versions of RMM), or seconds. The file may span midnight.
//   - A library and a tag are text, in which %XX is a byte.
//   - A stack is a number, and where it comes first also "=" and the frames, innermost first, separated by ";". A frame
//     is file:line:function.
//
// Errors name the line.
func ParseCSV(ctx context.Context, text string) (Recording, error) {
	p := parser{ctx: ctx, rest: strings.TrimPrefix(text, "\uFEFF"), naming: newNaming(),
		stacks: map[string]uint32{"": 0}}
	events, err := p.events()
	return Recording{Events: events, Names: p.naming.Names}, err
}

// ParseNumbered reads Header and the output of FormatLines. Holders and stacks are the numbers in the text.
func ParseNumbered(ctx context.Context, text string) ([]Event, error) {
	p := parser{ctx: ctx, rest: text, numbered: true}
	return p.events()
}

func (p *parser) events() ([]Event, error) {
	if err := p.header(); err != nil {
		return nil, err
	}
	// Empty lines are not events, so the number of lines alone would be too high an estimate.
	events := make([]Event, 0, min(strings.Count(p.rest, "\n"), len(p.rest)/shortestLine)+1)
	for {
		line, ok := p.next()
		if !ok {
			return events, p.ctx.Err()
		}
		e, err := p.event(line)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
}

// shortestLine is the length of the shortest event: "free,0,0" and a newline.
const shortestLine = 9

// stepsBetween is how many lines or events are processed between two checks of the context.
const stepsBetween = 1 << 12

type parser struct {
	ctx    context.Context
	rest   string
	line   int // number of the last one taken, from 1
	wanted []string
	last   int64 // time of day of the previous event
	days   int64 // midnights passed

	naming   *naming
	stacks   map[string]uint32 // by their number in the file
	library  string            // of the event
	tag      string
	numbered bool // the text is FormatLines's
}

// next returns the next line that is not empty. ok is false at the end of the file, or once the context has ended.
func (p *parser) next() (line string, ok bool) {
	for p.rest != "" {
		if p.line%stepsBetween == 0 && p.ctx.Err() != nil {
			return "", false
		}
		line, p.rest, _ = strings.Cut(p.rest, "\n")
		p.line++
		if line = strings.TrimSpace(line); line != "" {
			return line, true
		}
	}
	return "", false
}

func (p *parser) errorf(format string, args ...any) error {
	return status.Errorf(status.InvalidArgument, "line %d: "+format, append([]any{p.line}, args...)...)
}

// header finds the columns: wanted lists those of the file, with "" for one that is not read.
func (p *parser) header() error {
	line, ok := p.next()
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if !ok {
		return status.Errorf(status.InvalidArgument, "line 1: the file is empty; expected header "+
			"Thread,Time,Action,Pointer,Size,Stream")
	}
	if n := strings.Count(line, ",") + 1; n > mostColumns {
		return p.errorf("%d columns in %s; at most %d are supported", n, shown(line), mostColumns)
	}
	known := columns
	if p.numbered {
		known = ownColumns
	}
	for _, name := range strings.Split(line, ",") {
		name = strings.Trim(strings.TrimSpace(name), `"`)
		if !slices.Contains(known, name) {
			name = ""
		} else if slices.Contains(p.wanted, name) {
			return p.errorf("duplicate column %s", name)
		}
		p.wanted = append(p.wanted, name)
	}
	for _, name := range columns[:3] {
		if !slices.Contains(p.wanted, name) {
			return p.errorf("no column %s in %s; expected header Thread,Time,Action,Pointer,Size,Stream", name,
				shown(line))
		}
	}
	return nil
}

func (p *parser) event(line string) (e Event, err error) {
	rest, more := line, true
	p.library, p.tag = "", ""
	for i, column := range p.wanted {
		if !more {
			return e, p.errorf("%d fields in %s; the header has %d", i, shown(line), len(p.wanted))
		}
		var field string
		field, rest, more = strings.Cut(rest, ",")
		if column != "" {
			if err := p.field(&e, column, strings.TrimSpace(field)); err != nil {
				return e, err
			}
		}
	}
	if more {
		return e, p.errorf("more fields in %s than the header's %d", shown(line), len(p.wanted))
	}
	if p.library != "" || p.tag != "" {
		e.Holder = p.naming.holder(Holder{p.library, p.tag})
	}
	if e.Addr == 0 && e.Bytes > 0 && e.Action != AllocateFailure {
		return e, p.errorf("%s of %d bytes without an address", e.Action, e.Bytes)
	}
	return e, nil
}

// accepted says what a column has, where its name does not.
var accepted = map[string]string{
	"Action": ": it must be allocate, free or allocate failure",
	"Time":   ": it must be seconds or hours:minutes:seconds, such as 10:20:30.5",
}

func (p *parser) field(e *Event, column, field string) error {
	ok := true
	switch column {
	case "Action":
		e.Action, ok = parseAction(field)
	case "Pointer":
		if field != "(nil)" {
			e.Addr, ok = parseUint(strings.TrimPrefix(field, "0x"), 16)
		}
	case "Size":
		e.Bytes, ok = parseUint(field, 10)
		ok = ok && e.Bytes <= mostBytes
	case "Thread":
		e.Thread, ok = parseUint(field, 10)
	case "Time":
		e.Micros, ok = p.time(field)
	case "Stream":
		e.Stream, ok = parseStream(field)
	case "GPU":
		var gpu uint64
		gpu, ok = parseUint(field, 10)
		e.GPU, ok = int(gpu), ok && gpu < mostGPUs
	case "Library":
		p.library, ok = unescaped(field)
	case "Tag":
		p.tag, ok = unescaped(field)
	case "Stack":
		e.Stack, ok = p.stack(field)
	case "Block":
		if field != "" {
			e.Block, ok = parseUint(field, 10)
		}
	case "Before":
		e.Before = field != ""
	case "Pool":
		var number uint64
		if field != "" {
			number, ok = parseUint(field, 10)
		}
		e.Pool, ok = uint32(number), ok && number <= math.MaxUint32
	case "HolderID", "StackID":
		var number uint64
		number, ok = parseUint(field, 10)
		if ok = ok && number <= math.MaxUint32; column == "HolderID" {
			e.Holder = uint32(number)
		} else {
			e.Stack = uint32(number)
		}
	}
	if !ok {
		return p.errorf("invalid %s %s%s", column, shown(field), accepted[column])
	}
	return nil
}

// stack parses "7=file:12:function;..." or a number that came before.
func (p *parser) stack(field string) (number uint32, ok bool) {
	name, text, isNew := strings.Cut(field, "=")
	if !isNew {
		number, ok = p.stacks[name]
		return number, ok
	}
	var frames Stack
	for _, part := range strings.Split(text, ";") {
		f, ok := parseFrame(part)
		if !ok || len(frames) == mostFrames {
			return 0, false
		}
		frames = append(frames, f)
	}
	number = p.naming.stack(text, func() Stack { return frames })
	p.stacks[name] = number
	return number, name != ""
}

// mostFrames is the length of the longest stack in a file.
const mostFrames = 1 << 10

func parseFrame(text string) (f Frame, ok bool) {
	function := strings.LastIndexByte(text, ':')
	if function < 0 {
		return f, false
	}
	line := strings.LastIndexByte(text[:function], ':')
	if line < 0 {
		return f, false
	}
	number, numbered := parseUint(text[line+1:function], 10)
	file, okFile := unescaped(text[:line])
	name, okName := unescaped(text[function+1:])
	return Frame{file, int(number), name}, numbered && number <= math.MaxInt32 && okFile && okName
}

// unescaped replaces %XX with its byte. The result must be valid UTF-8.
func unescaped(field string) (string, bool) {
	if !strings.Contains(field, "%") {
		return field, utf8.ValidString(field)
	}
	text, err := url.PathUnescape(field)
	return text, err == nil && utf8.ValidString(text)
}

func parseAction(field string) (Action, bool) {
	for action := Allocate; int(action) < len(actionNames); action++ {
		if field == actionNames[action] {
			return action, true
		}
	}
	return Free, field == "deallocate"
}

func parseUint(field string, base int) (uint64, bool) {
	n, err := strconv.ParseUint(field, base, 64)
	return n, err == nil && field[0] != '_'
}

func parseStream(field string) (uint64, bool) {
	switch hex, isHex := strings.CutPrefix(field, "0x"); {
	case isHex:
		return parseUint(hex, 16)
	case field == "default" || field == "(nil)":
		return 0, true
	}
	return parseUint(field, 10)
}

// time parses a time into microseconds. A time of day that decreases by more than half a day belongs to the next day.
func (p *parser) time(field string) (micros int64, ok bool) {
	if field == "" {
		return 0, true
	}
	if !strings.Contains(field, ":") {
		return parseSeconds(field, mostSeconds)
	}
	parts := strings.SplitN(field, ":", 3)
	if len(parts) != 3 {
		return 0, false
	}
	hours, okHours := parseUint(parts[0], 10)
	minutes, okMinutes := parseUint(parts[1], 10)
	micros, ok = parseSeconds(strings.Replace(parts[2], ":", ".", 1), 61)
	if !okHours || !okMinutes || hours > 23 || minutes > 59 || !ok {
		return 0, false
	}
	micros += int64(hours*60+minutes) * 60e6
	if micros < p.last-secondsDay/2*1e6 {
		p.days++
	}
	p.last = micros
	return micros + p.days*secondsDay*1e6, true
}

// parseSeconds parses seconds below a bound, with any number of decimals.
func parseSeconds(field string, below uint64) (micros int64, ok bool) {
	whole, fraction, _ := strings.Cut(field, ".")
	seconds, ok := parseUint(whole, 10)
	if !ok || seconds >= below {
		return 0, false
	}
	micros = int64(seconds) * 1e6
	for unit := int64(1e5); fraction != ""; unit /= 10 {
		digit := fraction[0] - '0'
		if digit > 9 {
			return 0, false
		}
		micros += int64(digit) * unit
		fraction = fraction[1:]
	}
	return micros, true
}

// shown quotes a piece of the file for a message.
func shown(text string) string {
	const most = 60
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strconv.Quote(text)
}
