package cluster

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAStandstillIsBetweenTwoAnswers of one caller, and counts from the owner's end on; what was
// asked before it says nothing of when the next commit was.
func TestAStandstillIsBetweenTwoAnswers(t *testing.T) {
	t.Parallel()
	w, at := newWatch(), time.Unix(100, 0)
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	w.answered(ms(-9000), ms(-9000), ms(-1))
	if w.move != (Move{}) {
		t.Errorf("before the end: %+v", w.move)
	}
	w.signal(at)
	for _, answer := range [][3]int{{-1, -1, 700}, {700, 700, 702}, {-2, 1, 900}, {902, 902, 905}} {
		if w.answered(ms(answer[0]), ms(answer[1]), ms(answer[2])) {
			t.Error("it is over")
		}
	}
	if want := (Move{Standstill: 902 * time.Millisecond, Committed: 702 * time.Millisecond}); w.move != want {
		t.Errorf("%+v, want %+v", w.move, want)
	}
	if w.end(); !w.answered(at, at, at) {
		t.Error("it is not over")
	}
}

func TestAnswersAreWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWatch()
	reached := make(chan error)
	go func() { reached <- w.awaitAnswers(t.Context(), 3) }()
	for answers := 0; ; answers++ {
		select {
		case err := <-reached:
			if err != nil || answers < 3 {
				t.Errorf("%v after %d answers", err, answers)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := w.awaitAnswers(ctx, 3); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller has failed: %v", err)
			}
			return
		default:
			w.answered(time.Now(), time.Now(), time.Now())
		}
	}
}

func TestSharesAreAllOfIt(t *testing.T) {
	t.Parallel()
	for _, all := range []int{64, 256} {
		sum := 0
		for i := range Size {
			one := share(all, Size, i)
			if one < all/Size || one > all/Size+1 {
				t.Errorf("%d of %d", one, all)
			}
			sum += one
		}
		if sum != all {
			t.Errorf("%d, want %d", sum, all)
		}
	}
}
