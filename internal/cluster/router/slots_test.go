package router

import (
	"testing"
	"time"
)

// TestSeatsTellOfEach, and no seat tells of another one.
func TestSeatsTellOfEach(t *testing.T) {
	t.Parallel()
	seats := NewSlots()
	one, other := seats.At(1), seats.At(Partitions-1)
	if one == other || one != seats.At(1) {
		t.Error("a partition has not one seat")
	}
	for name, what := range map[string]func(){
		"a house comes": func() { one.Attach(newHall()) }, "a lease is renewed": func() { one.ExtendLease(time.Now().Add(time.Minute)) },
	} {
		some, its, others := seats.Changed(), one.Changed(), other.Changed()
		what()
		if !closed(some) || !closed(its) || closed(others) {
			t.Errorf("%s: all are told %t, its own %t, others %t", name, closed(some), closed(its), closed(others))
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestSeatsHaveAny house that takes calls.
func TestSeatsHaveAny(t *testing.T) {
	t.Parallel()
	seats := NewSlots()
	if seats.CountAccepted() > 0 {
		t.Error("there is a house in none")
	}
	_ = seats.At(2)
	seats.At(5).Attach(newHall())
	if seats.CountAccepted() != 1 || !seats.At(5).Accepts() || seats.At(2).Accepts() {
		t.Error("the house is not where it was put")
	}
	if _, err := seats.At(5).Detach(t.Context()); err != nil || seats.CountAccepted() > 0 {
		t.Errorf("it is there still: %v", err)
	}
}
