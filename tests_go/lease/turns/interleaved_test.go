package turns_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/lease/ledger"
)

// Every order of what three programs of 30 GiB, and who parks them, do at the ledger of one card of 40. Each change of
// the ledger is one step, since it happens under the grant lock, and so is a look that ends in sleep: what rings after
// the look began ends the sleep. The steps are a model of the ledger. Paths through them are walked in a real one, too:
// some, or with SCHEDULES all that end in a state of their own.

const programs = 3

type phase byte

const (
	begins  phase = iota // it has no claim yet
	asks                 // its claim waits, and it looks next
	sleeps               // until its word rings
	runs                 // it has the card
	leaves               // its memory is on its way out
	isOut                // it is parked
	asksIn               // it wants to come back, and looks next
	dozes                // as sleeps, to come back
	mayIn                // it was granted the card, which its parked claim gets next
	returns              // its memory is on its way back
	over
)

// world is a state of the model.
type world struct {
	phase [programs]phase
	rung  [programs]bool // of sleepers
	queue string         // the waiting programs, by ticket
	died  bool           // a program was killed, which rings no waiter
}

func (w *world) leased(i int) bool { return strings.ContainsRune("\x03\x04\x08\x09", rune(w.phase[i])) }

// turnOf is who gets the card now, as the ledger decides.
func (w *world) turnOf() int {
	leased := map[string]uint64{}
	for i := range programs {
		if w.leased(i) {
			leased["A"] += 30 * gib
		}
	}
	var queue []ledger.Wanted
	for range w.queue {
		queue = append(queue, ledger.Wanted{Cards: []ledger.Card{card("A", 30*gib)}, Count: 1})
	}
	for place, taken := range ledger.Decide(leased, queue) {
		if taken != nil {
			return int(w.queue[place] - '0')
		}
	}
	return -1
}

// ring wakes whose turn it is, if it sleeps.
func (w *world) ring(except int) {
	if next := w.turnOf(); next >= 0 && next != except {
		w.rung[next] = w.phase[next] == sleeps || w.phase[next] == dozes
	}
}

func (w *world) leaveQueue(i int) { w.queue = strings.ReplaceAll(w.queue, fmt.Sprint(i), "") }

// try is a look of a waiting program, or its entry: it is granted, or is not.
func (w *world) try(i int, granted, not phase) {
	if w.turnOf() == i {
		w.leaveQueue(i)
		w.phase[i] = granted
	} else {
		w.phase[i] = not
	}
}

// steps are the steps of a program and what each does to the world; nil if it cannot be done now.
var steps = map[string]func(w *world, i int) bool{
	"claim": func(w *world, i int) bool {
		ok := w.phase[i] == begins
		if ok {
			w.queue += fmt.Sprint(i)
			w.try(i, runs, asks)
		}
		return ok
	},
	"look": func(w *world, i int) bool {
		switch w.phase[i] {
		case asks:
			w.try(i, runs, sleeps)
		case asksIn:
			w.try(i, mayIn, dozes)
		default:
			return false
		}
		w.ring(i)
		return true
	},
	"wake": func(w *world, i int) bool {
		ok := w.rung[i]
		if ok {
			w.rung[i] = false
			w.phase[i] = map[phase]phase{sleeps: asks, dozes: asksIn}[w.phase[i]]
		}
		return ok
	},
	"reserve": func(w *world, i int) bool { // while another one waits
		ok := w.phase[i] == runs && w.queue != ""
		if ok {
			w.phase[i] = leaves
		}
		return ok
	},
	"fail": func(w *world, i int) bool { // its memory could not be saved
		ok := w.phase[i] == leaves
		if ok {
			w.phase[i] = runs
		}
		return ok
	},
	"park": func(w *world, i int) bool {
		ok := w.phase[i] == leaves
		if ok {
			w.phase[i] = isOut
			w.ring(-1)
		}
		return ok
	},
	"want": func(w *world, i int) bool {
		ok := w.phase[i] == isOut
		if ok {
			w.queue += fmt.Sprint(i)
			w.try(i, mayIn, asksIn)
		}
		return ok
	},
	"return": func(w *world, i int) bool {
		ok := w.phase[i] == mayIn
		if ok {
			w.phase[i] = returns
		}
		return ok
	},
	"loaded": func(w *world, i int) bool {
		ok := w.phase[i] == returns
		if ok {
			w.phase[i] = runs
		}
		return ok
	},
	"end": func(w *world, i int) bool {
		ok := w.phase[i] == runs || w.phase[i] == isOut
		if ok {
			w.phase[i] = over
			w.ring(-1)
		}
		return ok
	},
	"die": func(w *world, i int) bool { // in whichever state, once
		ok := !w.died && w.phase[i] != begins && w.phase[i] != over
		if ok {
			w.leaveQueue(i)
			w.phase[i], w.rung[i], w.died = over, false, true
		}
		return ok
	},
}

type step struct {
	name string
	who  int
}

// wrong is what must not be in any state.
func (w *world) wrong() string {
	holders, moves := 0, false
	for i := range programs {
		if w.leased(i) {
			holders++
		}
		moves = moves || w.rung[i] || !strings.ContainsRune("\x02\x05\x07\x0a", rune(w.phase[i]))
	}
	switch {
	case holders > 1:
		return "the card is leased twice"
	case !moves && w.queue != "" && !w.died:
		return "all sleep, and nobody rings whose turn it is"
	}
	return ""
}

// TestEveryOrderOfThreeProgramsAtTheLedger walks through all states, and from each to one in which every waiter has had
// its turn.
func TestEveryOrderOfThreeProgramsAtTheLedger(t *testing.T) {
	names := []string{}
	for name := range steps {
		names = append(names, name)
	}
	slices.Sort(names)
	paths := map[world][]step{{}: nil}
	after := map[world][]world{}
	hasNext := map[world]bool{}
	for queue := []world{{}}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		require.Empty(t, w.wrong(), "%+v after %v", w, paths[w])
		for i := range programs {
			for _, name := range names {
				next := w
				if !steps[name](&next, i) {
					continue
				}
				after[w] = append(after[w], next)
				if _, seen := paths[next]; !seen {
					paths[next] = append(slices.Clone(paths[w]), step{name, i})
					hasNext[w] = true
					queue = append(queue, next)
				}
			}
		}
	}
	reachesTheEnd(t, paths, after)
	t.Logf("%d states", len(paths))
	require.Greater(t, len(paths), 1500)
	walked := 0
	for w, path := range paths {
		if !hasNext[w] && (walked < 30 || os.Getenv("SCHEDULES") != "") {
			walk(t, path)
			walked++
		}
	}
	t.Logf("%d paths in a real ledger", walked)
}

// reachesTheEnd checks that from each state in which none has died all programs can still end: there is no deadlock.
func reachesTheEnd(t *testing.T, paths map[world][]step, after map[world][]world) {
	t.Helper()
	ends := map[world]bool{}
	for changed := true; changed; {
		changed = false
		for w := range paths {
			if ends[w] {
				continue
			}
			isEnd := w.phase == [programs]phase{over, over, over}
			if isEnd || slices.ContainsFunc(after[w], func(n world) bool { return ends[n] && n.died == w.died }) {
				ends[w], changed = true, true
			}
		}
	}
	for w, path := range paths {
		require.True(t, ends[w] || w.died, "a deadlock after %v: %+v", path, w)
	}
}

// walk does the steps of a path in the model and in a ledger, and compares them after each.
func walk(t *testing.T, path []step) {
	t.Helper()
	l, err := ledger.Open(t.TempDir()+"/ledger", true)
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	var w world
	var first, second [programs]*ledger.Claim
	var naps [programs]ledger.Nap
	host := ledger.Host{Total: 200 * gib, Available: 200 * gib, Group: 200 * gib}
	request := ledger.Request{Cards: []ledger.Card{card("A", 30*gib)}, Count: 1}
	for n, s := range path {
		i, before := s.who, w
		require.True(t, steps[s.name](&w, i))
		var err error
		switch s.name {
		case "claim":
			first[i], err = l.Claim(request)
		case "want":
			second[i], err = l.Claim(request)
		case "look":
			c := first[i]
			if before.phase[i] == asksIn {
				c = second[i]
			}
			var granted bool
			granted, naps[i], err = c.Look(nil)
			require.Equal(t, w.leased(i), granted, "%v, step %d", path, n)
		case "reserve":
			var ok bool
			ok, err = first[i].Reserve(30*gib, host)
			require.True(t, ok)
		case "fail", "loaded":
			err = first[i].Unreserve()
		case "park":
			err = first[i].Park()
		case "return":
			err = first[i].Return(second[i])
			second[i] = nil
		case "end":
			first[i].Release()
		case "die":
			for _, c := range []*ledger.Claim{first[i], second[i]} {
				if c != nil {
					fd, err := c.Descriptor()
					require.NoError(t, err)
					require.NoError(t, syscall.Close(fd)) // as the kernel does
				}
			}
		}
		require.NoError(t, err, "%v, step %d", path, n)
		require.Empty(t, l.Check(), "%v, step %d", path, n)
		compare(t, l, &w, first, second, path[:n+1])
		for i := range programs {
			if w.rung[i] {
				require.True(t, hasRung(t, l, naps[i]), "nobody rang for %d after %v", i, path[:n+1])
			}
		}
	}
	for i, c := range first {
		if c != nil && w.phase[i] != over {
			c.Release()
		}
		if second[i] != nil && w.phase[i] != over {
			second[i].Release()
		}
	}
}

// compare compares who has the card, is parked and waits, and in which order.
func compare(t *testing.T, l *ledger.Ledger, w *world, first, second [programs]*ledger.Claim, path []step) {
	t.Helper()
	rows, _, err := l.Rows()
	require.NoError(t, err)
	queue := ""
	for _, row := range rows { // by ticket
		for i := range programs {
			isFirst := first[i] != nil && row.ID == first[i].ID()
			isSecond := second[i] != nil && row.ID == second[i].ID()
			switch {
			case isFirst && row.State == ledger.Parked:
				require.Contains(t, []phase{isOut, asksIn, dozes, mayIn}, w.phase[i], "%v", path)
			case (isFirst || isSecond) && row.State == ledger.Granted:
				require.True(t, w.leased(i), "%v", path)
			case isFirst || isSecond:
				queue += fmt.Sprint(i)
			}
		}
	}
	require.Equal(t, w.queue, queue, "%v", path)
}

func hasRung(t *testing.T, l *ledger.Ledger, nap ledger.Nap) bool {
	t.Helper()
	words, err := os.ReadFile(l.Folder() + "/wake")
	require.NoError(t, err)
	return binary.NativeEndian.Uint32(words[4*nap.Word:]) != nap.Was
}
