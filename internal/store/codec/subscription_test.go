package codec

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	pb "github.com/pawl-dev/pawl/internal/store/storagepb"
)

// TestSubscriptionRows: every field comes back, and the bytes are the schema's.
func TestSubscriptionRows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		f := &filler{rnd: rand.New(rand.NewPCG(seed, 11)), full: seed%2 == 0}
		var sub machine.Subscription
		f.fill(reflect.ValueOf(&sub).Elem())
		// The key is not part of the value; of filters only what a stream has.
		sub.SubscriptionKey = machine.SubscriptionKey{}
		sub.Filter.Reason, sub.Filter.IDPrefix, sub.Filter.CreatedFrom, sub.Filter.CreatedBefore, sub.Filter.Oldest = "", "", 0, 0, false
		value := EncodeSubscription(&sub)
		sameAsGenerated(t, value[1:], &pb.Subscription{})
		got, err := DecodeSubscription(value)
		if err != nil || !reflect.DeepEqual(got, sub) {
			t.Fatalf("%+v came back as %+v, %v", sub, got, err)
		}
		var letter machine.DeadLetter
		f.fill(reflect.ValueOf(&letter).Elem())
		letter.N = 0
		value = EncodeDeadLetter(&letter)
		sameAsGenerated(t, value[1:], &pb.DeadLetter{})
		if got, err := DecodeDeadLetter(value); err != nil || !reflect.DeepEqual(got, letter) {
			t.Fatalf("%+v came back as %+v, %v", letter, got, err)
		}
	}
}
