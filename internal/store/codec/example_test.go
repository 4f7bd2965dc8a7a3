package codec_test

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// An entry holds one input and the records that it made; its hash chains it to
// the one before. The committer sets the cursor last, which the hash leaves out.
func ExampleEncodeEntry() {
	input := machine.Input{At: 7, Principal: "app", ID: "e-1", Command: machine.EmitEvent{Event: "Ready"}}
	records := []machine.Record{{
		Seq: 2, At: 7, Principal: "app",
		Body: &machine.Transition{From: "draft", Event: "Ready", To: "done", Intended: "done", Visit: 1, Total: 2, Cause: machine.CauseEvent},
	}}
	value, hash, err := codec.EncodeEntry([32]byte{}, 2, &input, records)
	if err != nil {
		fmt.Println(err)
		return
	}
	codec.SetCursor(value, 41)
	fmt.Println("chained:", codec.Chained(value))

	entry, err := codec.DecodeEntry("01J", value)
	fmt.Println(entry.Cursor, entry.First, entry.Input.ID, entry.Hash == hash, err)
	fmt.Println(rules.EqualRecords(entry.Records[0], records[0]))

	_, err = codec.DecodeEntry("01J", value[:len(value)/2])
	fmt.Println(errors.Is(err, codec.ErrCorrupt))
	// Output:
	// chained: true
	// 41 2 e-1 true <nil>
	// true
	// true
}

func ExampleAppendEntryRef() {
	row := codec.AppendEntryRef(nil, "01J", 7)
	row = codec.AppendEntryRef(row, "01K", 1)
	places, err := codec.DecodeEntryRefs(row)
	fmt.Println(places, err)
	// Output: [{01J 7} {01K 1}] <nil>
}
