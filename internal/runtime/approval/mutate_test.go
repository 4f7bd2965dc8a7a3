package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// TestMutatedPayloads: of 10 000 payloads that are changed between approval and dispatch none
// goes out. Equal ones in another spelling do.
func TestMutatedPayloads(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(12, 2))
	const approved = `{"account":"DE89370400440532013000","amount":149.5,"items":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}],"note":"as agreed"}`
	tried, same := 0, 0
	for tried < 10_000 {
		changed := []byte(approved)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(changed))
			switch rng.IntN(4) {
			case 0:
				changed[at] = byte(32 + rng.IntN(95))
			case 1:
				changed = append(changed[:at], changed[at+1:]...)
			case 2:
				changed = append(changed[:at], append([]byte{byte(32 + rng.IntN(95))}, changed[at:]...)...)
			default:
				changed = append([]byte(fmt.Sprintf(`{"amount":%d,`, rng.IntN(1000))), changed[1:]...)
			}
		}
		s, step := approvedStep(approved)
		err := Verify(s, step, changed, 1)
		if json.Valid(changed) && validate.PayloadHash(changed) == step.PayloadHash && strictjson.Valid(changed) {
			same++ // spaces
			continue
		}
		tried++
		if _, mismatch := errors.AsType[*Mismatch](err); !mismatch {
			t.Fatalf("%s goes out: %v", changed, err)
		}
		if c, ok := Refusal(step, err).(machine.ResolveStep); !ok || c.OK || !c.Final {
			t.Fatalf("%s: %+v", changed, c)
		}
	}
	t.Logf("tried: %d mutated payloads, all refused; %d the same in another spelling", tried, same)
}
