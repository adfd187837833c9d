package plan

const mib = 1 << 20

// search finds the least limit in MiB that a job fits under. It is asked for the next one to try and told how that went.
type search struct {
	fails uint64 // MiB: too little, for sure
	fits  uint64 // MiB: enough; 0: none is known
	step  uint64
}

// newSearch begins right above what can't do: less than is live at one time.
func newSearch(peakLiveBytes uint64) *search {
	if peakLiveBytes == 0 {
		return &search{fits: 1}
	}
	return &search{fails: (peakLiveBytes - 1) / mib, step: 1}
}

// next gives what to try. done: the answer is there.
func (s *search) next() (limitMiB uint64, done bool) {
	switch {
	case s.fits == 0:
		return s.fails + s.step, false
	case s.fits-s.fails > 1:
		return s.fails + (s.fits-s.fails)/2, false
	}
	return s.fits, true
}

func (s *search) told(limitMiB uint64, fits bool) {
	if fits {
		s.fits = limitMiB
		return
	}
	s.fails = limitMiB
	s.step *= 2
}
