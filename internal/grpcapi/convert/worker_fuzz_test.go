package convert

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// FuzzWorkerRegistration: no registration makes its conversion panic, checked or not.
func FuzzWorkerRegistration(f *testing.F) {
	seed, err := proto.Marshal(&pawlv1.WorkerRegistration{
		WorkerId: "w", HeldTurns: []*pawlv1.TurnLease{nil, {}}, HeldSteps: []*pawlv1.StepLease{nil, {}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(_ *testing.T, data []byte) {
		m := &pawlv1.WorkerRegistration{}
		if proto.Unmarshal(data, m) == nil {
			WorkerFromProto(runtime.Call{}, m)
		}
	})
}
