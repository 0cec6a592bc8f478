package h2c

import "sync"

// slots counts the requests that the engine does not count yet. The engine's own reservations are not used:
// when the peer's first SETTINGS allow fewer streams than were reserved before, requests wait for
// reservations that wait for them.
type slots struct {
	mu      sync.Mutex
	pending int  // taken, and not a stream of the engine's
	missed  bool // take has failed since the last settle
}

// take takes a slot if the engine has more of them free than are pending.
func (s *slots) take(free func() int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if free() <= s.pending {
		s.missed = true
		return false
	}
	s.pending++
	return true
}

// settle ends a pending slot: it is a stream now, or never will be. It reports whether somebody may have
// missed the slot that this one seemed to take.
func (s *slots) settle() (missed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = max(0, s.pending-1)
	missed, s.missed = s.missed, false
	return missed
}

func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}
