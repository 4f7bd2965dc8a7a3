package codec

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestARecordIsEncodedOnce: however many readers come to a record at once, it is
// converted once, and all are given the same bytes.
func TestARecordIsEncodedOnce(t *testing.T) {
	t.Parallel()
	kept := NewRecords()
	var conversions atomic.Int64
	var readers sync.WaitGroup
	for range 32 {
		readers.Go(func() {
			for position := range uint64(500) {
				place := RecordKey{Namespace: "default", Position: position}
				data, err := kept.Message(place, func() (Message, error) {
					conversions.Add(1)
					return Message{byte(position)}, nil
				})
				if err != nil || len(data) != 1 || data[0] != byte(position) {
					t.Errorf("position %d: %v, %v", position, data, err)
				}
			}
		})
	}
	readers.Wait()
	if n := conversions.Load(); n != 500 {
		t.Fatalf("%d conversions of 500 records", n)
	}
}

// TestWhatIsKeptOfRecordsIsBounded by number and by bytes.
func TestWhatIsKeptOfRecordsIsBounded(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"by number": 1, "by bytes": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := NewRecords()
			for position := range uint64(3 * keptRecords) {
				_, _ = records.Message(RecordKey{Position: position}, func() (Message, error) { return make(Message, size), nil })
				if position%64 != 0 {
					continue
				}
				held := 0
				for past := range position + 1 {
					if record, ok := records.cache.Peek(RecordKey{Position: past}); ok {
						held += len(record.data)
					}
				}
				if n := records.cache.Len(); n > keptRecords || held > keptBytes || held < n*size {
					t.Fatalf("%d records with %d bytes are kept", n, held)
				}
			}
		})
	}
}

// TestAFailedConversionIsNobodyElses: the next reader converts for itself.
func TestAFailedConversionIsNobodyElses(t *testing.T) {
	t.Parallel()
	kept := NewRecords()
	gone := errors.New("the stream has ended")
	if _, err := kept.Message(RecordKey{}, func() (Message, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Fatalf("got %v", err)
	}
	data, err := kept.Message(RecordKey{}, func() (Message, error) { return Message("x"), nil })
	if err != nil || string(data) != "x" {
		t.Fatalf("got %q, %v", data, err)
	}
}

// TestAConversionThatPanicsIsNobodyElses: neither those who wait for it nor the next
// reader are given an empty record.
func TestAConversionThatPanicsIsNobodyElses(t *testing.T) {
	t.Parallel()
	records := NewRecords()
	place := RecordKey{Position: 1}
	waits := records.keep(place)
	func() {
		defer func() { _ = recover() }()
		_, _ = records.Message(place, func() (Message, error) { panic("no such record") })
	}()
	if waits.err == nil {
		t.Error("who waits is given an empty record")
	}
	data, err := records.Message(place, func() (Message, error) { return Message("x"), nil })
	if now, _ := records.cache.Peek(place); err != nil || string(data) != "x" || now == waits || string(now.data) != "x" {
		t.Fatalf("got %q, %v", data, err)
	}
}
