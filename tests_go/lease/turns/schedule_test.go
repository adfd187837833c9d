package turns_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/lease/turns"
)

const (
	gib       = 1 << 30
	cardBytes = 40 * gib
	never     = time.Duration(1 << 62)

	offeredAfter = 30 * time.Minute // _OFFERED in python/gpuconf/jobs/agent.py
)

func card(name string, bytes uint64) ledger.Card {
	return ledger.Card{UUID: name, Bytes: bytes, Charge: bytes, Budget: cardBytes, Total: cardBytes}
}

type state int

const (
	absent  state = iota
	waiting       // for its first turn
	running       // its gate is open
	saving        // its gate is closed, and its memory on its way out
	parked        // and it does not want to run
	wanting       // it is parked, and its claim waits
	loading       // its lease is granted, and its memory on its way back
	stuck         // its restore failed
	finished
)

// job is a program with its agent.
type job struct {
	name  string
	cards []ledger.Card // the candidates
	count int
	unfit string

	arrives, ends time.Duration // it ends when it has run for so long
	busy, quiet   time.Duration // it computes for a time and is idle for another; quiet 0: it always computes
	slice, idle   time.Duration // what its user requested
	out, in       time.Duration

	state   state
	since   time.Duration // of the state
	began   time.Duration // its turn
	phase   time.Duration // when it last began or ended to compute
	idleNow bool
	ran     time.Duration
	next    time.Duration // when its state ends by itself
	for_    string        // for whom it leaves
	claimed time.Duration // when its claim began to wait
	queued  int           // how many waited at most meanwhile, with itself
	spoiled bool          // something that lasts kept it waiting that is no turn of another one
	held    []ledger.Card // what the driver has given it
	back    []ledger.Card // what it was granted to come back with
	shadow  *job          // of its second claim in memory
	claim   *ledger.Claim // in the real ledger, as is again
	again   *ledger.Claim
	value   uint64 // what its memory holds
}

func (j *job) bytes() (sum uint64) {
	for range j.count {
		sum += j.cards[0].Charge
	}
	return sum
}

func (j *job) wanted() ledger.Wanted { return ledger.Wanted{Cards: j.cards, Count: j.count} }
func (j *job) parkedNow() bool       { return j.state == parked || j.state == wanting || j.state == stuck }
func (j *job) isWaiting() bool       { return j.state == waiting || j.state == wanting }
func (j *job) swaps() bool           { return j.state == saving || j.state == loading }

// schedule is one run of jobs with their agents, on a clock of its own. All that happens at one time happens in some
// order, which the seed draws.
type schedule struct {
	random *rand.Rand
	jobs   []*job
	ledger leases
	now    time.Duration
	host   uint64
	calm   bool // nothing fails, all can be parked, and the host has room for all

	driver          map[string]uint64 // what it has given out
	mostBehind      time.Duration     // longest wait beyond its bound; never above 0
	waited, working time.Duration     // a program waits; and another one has its turn then
	swapped, turned time.Duration     // in swaps; in turns that ended by a swap
	parks           int
}

func newSchedule(seed uint64, make func(host uint64) leases) *schedule {
	s := &schedule{random: rand.New(rand.NewPCG(seed, 55)), driver: map[string]uint64{}, calm: seed%2 == 0}
	cards, steady := 1+s.random.IntN(2), seed%4 == 0
	s.host = 1024 * gib
	if !s.calm && s.random.IntN(2) == 0 {
		s.host = uint64(10+s.random.IntN(80)) * gib
	}
	for i := range 2 + s.random.IntN(9) {
		j := &job{name: fmt.Sprint("job", i), count: 1, value: s.random.Uint64()}
		size := uint64(5+5*s.random.IntN(8)) * gib
		for k := range cards {
			j.cards = append(j.cards, card(string(rune('A'+k)), size))
		}
		if cards == 2 && s.random.IntN(4) == 0 {
			j.count = 2
		} else if cards == 2 && s.random.IntN(3) == 0 {
			j.cards = j.cards[1:]
		}
		// 3.0 GB/s out and 5.3 in, and a fixed time
		j.out = 140*time.Millisecond + time.Duration(j.bytes()/3)
		j.in = 140*time.Millisecond + time.Duration(j.bytes()*10/53)
		j.ends = never
		if !steady {
			j.arrives = time.Duration(s.random.IntN(1800)) * time.Second
			if s.random.IntN(2) == 0 {
				j.busy = time.Duration(1+s.random.IntN(120)) * time.Second
				j.quiet = time.Duration(1+s.random.IntN(900)) * time.Second
			}
			if s.random.IntN(3) == 0 {
				j.ends = time.Duration(60+s.random.IntN(3000)) * time.Second
			}
			if s.random.IntN(4) == 0 {
				j.slice = time.Duration(s.random.IntN(600)) * time.Second
			}
			j.idle = time.Duration(s.random.IntN(120)) * time.Second
		}
		if !s.calm && s.random.IntN(6) == 0 {
			j.unfit = "it has managed memory"
		}
		s.jobs = append(s.jobs, j)
	}
	s.ledger = make(s.host)
	return s
}

func (s *schedule) enter(j *job, to state, next time.Duration) {
	if j.swaps() {
		s.swapped += s.now - j.since
	}
	if j.state == running {
		j.ran += s.now - j.since
	}
	if to == saving {
		s.turned += s.now - j.began
	}
	j.state, j.since, j.next = to, s.now, next
}

// run goes on until a time, or until something is wrong.
func (s *schedule) run(until time.Duration) error {
	for _, j := range s.jobs {
		j.next = j.arrives
	}
	for s.now < until {
		for range len(s.jobs) + 2 { // until nothing more happens at this time
			happened, err := s.step()
			if err == nil {
				err = s.check()
			}
			if err != nil {
				return fmt.Errorf("at %v: %w", s.now, err)
			}
			if !happened {
				break
			}
		}
		if err := s.blockedAreNamed(); err != nil {
			return fmt.Errorf("at %v: %w", s.now, err)
		}
		s.pass(min(until, s.nextTime()))
	}
	return nil
}

// pass lets time pass, in which nothing happens.
func (s *schedule) pass(to time.Duration) {
	waits, works := 0, false
	for _, j := range s.jobs {
		if j.isWaiting() {
			waits++
		}
		works = works || j.state == running
	}
	if waits > 0 {
		s.waited += to - s.now
		if works {
			s.working += to - s.now
		}
	}
	s.now = to
}

func (s *schedule) nextTime() time.Duration {
	next := never
	add := func(at time.Duration) {
		if at > s.now {
			next = min(next, at)
		}
	}
	for _, j := range s.jobs {
		add(j.next)
		if j.quiet > 0 && j.state == running {
			add(j.phaseEnds())
		}
		if j.state == parked {
			add(j.since + 30*time.Minute)
		}
	}
	for _, plan := range s.plans() {
		add(plan.When)
	}
	return next
}

func (j *job) phaseEnds() time.Duration {
	if j.idleNow {
		return j.phase + j.quiet
	}
	return j.phase + j.busy
}

// step does what is due, in the order of the draw, and reports whether there was something.
func (s *schedule) step() (happened bool, err error) {
	for _, i := range s.random.Perm(len(s.jobs)) {
		j := s.jobs[i]
		did, err := s.act(j)
		if err != nil {
			return false, fmt.Errorf("%s: %w", j.name, err)
		}
		happened = happened || did
	}
	return happened, nil
}

func (s *schedule) fails(oneOf int) bool { return !s.calm && s.random.IntN(oneOf) == 0 }

// act is what the program and its agent do when they look.
func (s *schedule) act(j *job) (did bool, err error) {
	if j.state != absent && j.state != finished && s.fails(400) { // a kill, in whichever state
		return true, s.end(j)
	}
	if j.quiet > 0 && (j.state == running || j.state == parked) && s.now >= j.phaseEnds() {
		j.phase, j.idleNow, did = s.now, !j.idleNow, true
	}
	switch j.state {
	case absent:
		if s.now >= j.next {
			return true, s.wait(j, waiting)
		}
	case waiting, wanting:
		granted, err := s.ledger.look(j)
		if err != nil || !granted {
			return did, err
		}
		return true, s.granted(j)
	case running:
		if s.now >= j.next {
			return true, s.end(j)
		}
		return s.maybeLeave(j, did)
	case saving:
		if s.now >= j.next {
			return true, s.saved(j)
		}
	case parked: // a cell is run, or it is offered a turn
		if j.quiet == 0 || !j.idleNow || s.now-j.since >= offeredAfter {
			return true, s.wait(j, wanting)
		}
	case loading:
		if s.now >= j.next {
			return true, s.loaded(j)
		}
	}
	return did, nil
}

func (s *schedule) wait(j *job, as state) error {
	s.enter(j, as, never)
	j.claimed, j.queued = s.now, 0
	return s.ledger.claim(j)
}

func (s *schedule) take(j *job, cards []ledger.Card) {
	j.held = cards
	for _, c := range cards {
		s.driver[c.UUID] += c.Charge
	}
}

func (s *schedule) give(j *job) {
	for _, c := range j.held {
		s.driver[c.UUID] -= c.Charge
	}
	j.held = nil
}

// granted is a first turn, or the way back.
func (s *schedule) granted(j *job) error {
	if s.calm {
		s.mostBehind = max(s.mostBehind, s.now-j.claimed-s.bound(j))
	}
	if j.state == waiting {
		s.take(j, s.leaseOf(j))
		s.begin(j)
		return nil
	}
	cards := j.back
	for _, c := range cards {
		if s.driver[c.UUID]+c.Charge > cardBytes {
			return fmt.Errorf("invariant 2: %d GiB of card %s are in use, and %d more were granted",
				s.driver[c.UUID]/gib, c.UUID, c.Charge/gib)
		}
	}
	if err := s.ledger.comeBack(j); err != nil {
		return err
	}
	s.take(j, cards)
	s.enter(j, loading, s.now+j.in)
	return nil
}

// bound is how long it may wait at most, and a way out that has begun.
func (s *schedule) bound(j *job) time.Duration {
	var slice, out, in time.Duration
	for _, other := range s.jobs {
		p := s.program(other)
		slice, out, in = max(slice, p.Turn()), max(out, other.out), max(in, other.in)
	}
	return time.Duration(j.queued) * (slice + out + in)
}

func (s *schedule) leaseOf(j *job) (cards []ledger.Card) {
	switch b := s.ledger.(type) {
	case *inMemory:
		return b.leases[j]
	case *inLedger:
		for _, lease := range j.claim.Cards() {
			cards = append(cards, card(lease.UUID, lease.Bytes))
		}
	}
	return cards
}

func (s *schedule) begin(j *job) {
	next := never
	if j.ends != never {
		next = s.now + j.ends - j.ran
	}
	s.enter(j, running, next)
	j.began, j.phase, j.idleNow = s.now, s.now, false
}

// maybeLeave parks the program if a plan says so. Each agent plans for itself.
func (s *schedule) maybeLeave(j *job, did bool) (bool, error) {
	program := s.program(j)
	if s.now < program.Leaves() || !slices.ContainsFunc(s.jobs, (*job).isWaiting) {
		return did, nil // invariant 6
	}
	for _, plan := range s.scene().Plans() {
		if !slices.Contains(plan.Leave, j.name) || plan.When > s.now {
			continue
		}
		if err := s.isNeeded(j, plan); err != nil {
			return false, err
		}
		if swap := j.out + j.in; 10*swap > s.now-j.began+swap {
			return false, fmt.Errorf("more than a tenth of the time is for swaps: %v after %v", swap, s.now-j.began)
		}
		if s.fails(10) {
			j.began = s.now // a lock that is not ready: it goes on, and is asked again after a turn
			return true, nil
		}
		room, err := s.ledger.reserve(j)
		if err != nil || !room {
			return did, fmt.Errorf("the plan found no room of the host's memory: %w", err)
		}
		j.for_ = plan.Waiter
		s.parks++
		s.enter(j, saving, s.now+j.out)
		return true, nil
	}
	return did, nil
}

// isNeeded checks that the waiter of a plan gets its cards if the others leave too, and not if this one stays.
func (s *schedule) isNeeded(j *job, plan turns.Plan) error {
	served := func(stays *job) bool {
		leased := map[string]uint64{}
		for _, other := range s.jobs {
			leaves := other.state == saving || slices.Contains(plan.Leave, other.name)
			if other == stays || !leaves {
				for _, c := range other.held {
					leased[c.UUID] += c.Charge
				}
			}
		}
		var queue []ledger.Wanted
		for _, w := range s.scene().Waiters {
			queue = append(queue, w.Wanted)
			if w.ID == plan.Waiter {
				break
			}
		}
		return ledger.Decide(leased, queue)[len(queue)-1] != nil
	}
	isFirst := s.scene().Waiters[0].ID == plan.Waiter
	if isFirst && (!served(nil) || served(j)) {
		return fmt.Errorf("invariant 6: %s leaves for %s, who has room without it, or none with it", j.name,
			plan.Waiter)
	}
	return nil
}

func (s *schedule) saved(j *job) error {
	if s.fails(20) { // the checkpoint is refused
		s.begin(j)
		return s.ledger.unreserve(j)
	}
	s.give(j) // invariant 3: before its lease ends
	s.enter(j, parked, never)
	return s.ledger.park(j)
}

func (s *schedule) loaded(j *job) error {
	if s.fails(50) { // invariant 8: what it had stays in the host's memory
		s.give(j)
		s.enter(j, stuck, never)
		room := j.bytes()
		if real, isReal := s.ledger.(*inLedger); isReal {
			real.filled += room
		}
		return s.ledger.park(j)
	}
	s.begin(j)
	return s.ledger.unreserve(j)
}

func (s *schedule) end(j *job) error {
	s.give(j)
	err := s.ledger.release(j)
	s.enter(j, finished, never)
	return err
}

func (s *schedule) program(j *job) turns.Program {
	return turns.Program{ID: j.name, Cards: j.held, Unfit: j.unfit, Leaving: j.state == saving,
		Coming: j.state == loading, Began: j.began, IsIdle: j.idleNow, IdleSince: j.phase, Out: j.out, In: j.in,
		Slice: j.slice, IdleTime: j.idle, Saved: j.bytes()}
}

func (s *schedule) scene() *turns.Scene {
	scene := &turns.Scene{Host: s.host}
	var queue []*job
	for _, j := range s.jobs {
		if j.state == running || j.swaps() {
			scene.Programs = append(scene.Programs, s.program(j))
		}
		if j.parkedNow() || j.swaps() { // which has reserved
			scene.Host -= j.bytes()
		}
		if j.isWaiting() {
			queue = append(queue, j)
		}
	}
	slices.SortStableFunc(queue, func(a, b *job) int { return s.ticket(a) - s.ticket(b) })
	for _, j := range queue {
		scene.Waiters = append(scene.Waiters, turns.Waiter{ID: j.name, Wanted: j.wanted()})
	}
	return scene
}

func (s *schedule) ticket(j *job) int {
	if b, ok := s.ledger.(*inMemory); ok {
		return slices.Index(b.waiting, j)
	}
	b := s.ledger.(*inLedger)
	rows, _, _ := b.ledger.Rows()
	c := j.claim
	if j.again != nil {
		c = j.again
	}
	for _, row := range rows {
		if row.ID == c.ID() {
			return int(row.Ticket)
		}
	}
	return -1
}

// check checks the invariants between any two things that happen.
func (s *schedule) check() error {
	used := map[string]uint64{}
	waits := 0
	for _, j := range s.jobs {
		for _, c := range j.held {
			used[c.UUID] += c.Charge
		}
		if holds := j.state == running || j.swaps(); holds != (j.held != nil) {
			return fmt.Errorf("invariant 3 or 4: %s is in state %d with memory of %d cards", j.name, j.state,
				len(j.held))
		}
		if j.isWaiting() {
			waits++
		}
	}
	for _, j := range s.jobs {
		if j.isWaiting() {
			j.queued = max(j.queued, waits)
		}
		if j.state == saving && s.calm && j.since == s.now && j.next > s.now &&
			!slices.ContainsFunc(s.jobs, func(w *job) bool { return w.name == j.for_ && w.state != finished }) {
			return fmt.Errorf("invariant 6: %s leaves for %s, who is not there", j.name, j.for_)
		}
	}
	for name, bytes := range s.driver {
		if bytes != used[name] || bytes > cardBytes {
			return fmt.Errorf("invariant 1: the driver has given out %d GiB of card %s", bytes/gib, name)
		}
	}
	if s.mostBehind > 0 {
		return fmt.Errorf("invariant 6: somebody waited %v too long", s.mostBehind)
	}
	return s.ledger.sound()
}

// blockedAreNamed checks that a plan says why no program can leave for the first waiter.
func (s *schedule) blockedAreNamed() error {
	moves := slices.ContainsFunc(s.jobs, (*job).swaps)
	plans := s.plans()
	if len(plans) == 0 {
		return nil
	}
	if first := plans[0]; !moves && !first.Gets && len(first.Blocked) == 0 {
		return fmt.Errorf("invariant 6: %s waits, and is not told for what", first.Waiter)
	}
	for _, plan := range plans {
		if s.calm && len(plan.Blocked) > 0 {
			return fmt.Errorf("invariant 6: %s is blocked by %v, who can leave", plan.Waiter, plan.Blocked)
		}
	}
	return nil
}

func (s *schedule) plans() []turns.Plan {
	if !slices.ContainsFunc(s.jobs, (*job).isWaiting) {
		return nil
	}
	return s.scene().Plans()
}
