package script

import (
	"testing"
	"time"
)

func TestClockAdvances(t *testing.T) {
	t.Parallel()
	c := NewClock()
	before := c.Now()
	hour, day := c.After(time.Hour), c.After(24*time.Hour)
	c.Advance(2 * time.Hour)
	select {
	case at := <-hour:
		if at.Before(before.Add(2 * time.Hour)) {
			t.Errorf("fired at %s, before %s", at, before.Add(2*time.Hour))
		}
	default:
		t.Error("what is due has not fired")
	}
	select {
	case <-day:
		t.Error("what is not due has fired")
	default:
	}
	if passed := c.Now().Sub(before); passed < 2*time.Hour || passed > 3*time.Hour {
		t.Errorf("%s have passed", passed)
	}
	c.Advance(22 * time.Hour)
	<-day
	c.Advance(24 * time.Hour)
	if len(hour)+len(day)+len(c.waiting) != 0 {
		t.Error("a waiter fired twice or was kept")
	}
}

func TestClockRunsByItself(t *testing.T) {
	t.Parallel()
	c := NewClock()
	select {
	case <-c.After(time.Millisecond):
	case <-time.After(time.Minute):
		t.Fatal("real time does not pass")
	}
}
