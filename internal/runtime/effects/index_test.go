package effects

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// rows are the business keys of a store.
type rows map[[32]byte]machine.Effect

func (r rows) Effect(_ context.Context, _ uint32, key [32]byte) (machine.Effect, bool, error) {
	row, taken := r[key]
	return row, taken, nil
}

func (r rows) Head(context.Context, uint32, string) (*machine.State, error) {
	return nil, machine.ErrNoRun
}

// TestAKeyOfAnEarlierProgramStands: a store that an earlier program wrote has keys of other
// spellings. The same call is refused by them, and one of another value is not.
func TestAKeyOfAnEarlierProgramStands(t *testing.T) {
	t.Parallel()
	fields := []string{"/n"}
	had, _ := KeysOf("pay", fields, []byte(`{"n":49.90}`))
	if had.Key == had.Older {
		t.Fatal("the spelling does not matter to either program")
	}
	book := New(rows{had.Older: {Key: had.Older, RunID: "R", Step: 3}}, nil, nil)
	for payload, taken := range map[string]bool{`{"n":49.90}`: true, `{"n":49.91}`: false, `{"n":"49.90"}`: false} {
		var older LegacyKeys
		key, _ := older.KeyOf("pay", fields, []byte(payload))
		in := machine.Input{Command: machine.RequestSteps{Requests: []machine.StepRequest{{Tool: "pay", Effect: key}}}}
		batch := &machine.Batch{Wanted: [][32]byte{key}, State: &machine.State{}}
		again, err := book.Stamp(t.Context(), 1, &in, batch, older)
		denied := in.Command.(machine.RequestSteps).Requests[0].Denied
		if err != nil || again != taken || (denied != nil) != taken {
			t.Errorf("%s: %v, %+v, %v", payload, again, denied, err)
		}
		if denied != nil && (denied.Code != machine.DuplicateEffect || denied.Message != "step R/3 has this effect, and no answer that is known") {
			t.Errorf("%s: %+v", payload, denied)
		}
	}
}
