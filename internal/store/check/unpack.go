package check

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/runfile"
)

// MaxExport is the maximum size of the file of an exported run, in bytes.
const MaxExport = 1 << 30

// Unpack copies the file of an exported run into a temporary file and reads the description of the run.
// The caller must remove the temporary file with [Discard]. Unpack checks the checksum of the file and
// the pack's digest. [ProveExport] and the Import of the store check the journal.
//
// Errors: *machine.Error EXPORT_INVALID, EXPORT_TRUNCATED, EXPORT_NEWER, EXPORT_TOO_LARGE; the errors of in and
// of the temporary file.
func Unpack(in io.Reader) (out machine.Export, err error) {
	spool, err := os.CreateTemp("", "pawl-import-*")
	if err != nil {
		return out, fmt.Errorf("unpack: %w", err)
	}
	out.Spool = spool.Name()
	defer func() {
		if err = errors.Join(err, spool.Close()); err != nil {
			err = errors.Join(exportRefusal(err), Discard(out))
		}
	}()
	limited := &io.LimitedReader{R: in, N: MaxExport + 1}
	buffered := bufio.NewWriter(spool)
	if err := readExport(io.TeeReader(limited, buffered), &out); err != nil {
		if limited.N == 0 {
			return out, &machine.Error{
				Code: machine.CodeResourceExhausted, Reason: "EXPORT_TOO_LARGE", Field: "data",
				Message: "the file is too large", Limit: MaxExport, Got: MaxExport + 1,
			}
		}
		return out, err
	}
	return out, buffered.Flush()
}

// readExport reads a whole file of an exported run. The header and the pack must come first. Only
// journal entries and blobs may follow.
func readExport(in io.Reader, out *machine.Export) error {
	r, err := runfile.NewReader(in)
	if err != nil {
		return err
	}
	h := r.Header()
	out.RunID, out.Digest, out.Entry, out.Agent, out.EntryOverride = h.RunID, h.Digest, h.Entry, h.Agent, h.EntryOverride
	out.Records = h.Records
	sum, err := hex.DecodeString(h.Hash)
	if err != nil || len(sum) != sha256.Size || h.RunID == "" || h.Records == 0 {
		return fmt.Errorf("%w: its header names no run", runfile.ErrInvalid)
	}
	out.Hash = [32]byte(sum)
	kind, body, err := r.Next()
	if err != nil {
		return err
	}
	if kind != runfile.KindPack {
		return fmt.Errorf("%w: no pack follows its header", runfile.ErrInvalid)
	}
	out.Pack = body
	if err := layout.CheckPack(&machine.PackRow{Digest: h.Digest, Canonical: body}); err != nil {
		return fmt.Errorf("%w: %w", runfile.ErrInvalid, err)
	}
	for {
		kind, _, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case kind == runfile.KindHeader || kind == runfile.KindPack:
			return fmt.Errorf("%w: it has a second header or pack", runfile.ErrInvalid)
		}
	}
}

// Discard removes the temporary file of [Unpack].
func Discard(x machine.Export) error {
	if err := os.Remove(x.Spool); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// exportRefusal turns an error about an export file into a *machine.Error for clients. It returns other errors
// unchanged.
func exportRefusal(err error) error {
	r := &machine.Error{Code: machine.CodeInvalidArgument, Field: "data", Message: err.Error()}
	switch {
	case errors.Is(err, runfile.ErrTruncated):
		r.Reason = "EXPORT_TRUNCATED"
	case errors.Is(err, runfile.ErrNewer):
		r.Code, r.Reason = machine.CodeFailedPrecondition, "EXPORT_NEWER"
	case errors.Is(err, runfile.ErrInvalid):
		r.Reason = "EXPORT_INVALID"
	default:
		return err
	}
	return r
}

// Frames calls visit for each frame (a part with a kind and a length) of an unpacked export file after
// its header: first the pack, then the journal entries and blobs.
func Frames(x machine.Export, visit func(kind runfile.Kind, body []byte) error) (err error) {
	file, err := os.Open(x.Spool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := runfile.NewReader(file)
	if err != nil {
		return err
	}
	for {
		kind, body, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(kind, body); err != nil {
			return err
		}
	}
}

// ProveExport checks the journal and the blobs of an unpacked export file. Faults of the journal are in
// the returned proof. Any other fault is a *machine.Error.
func ProveExport(x machine.Export, g *machine.Graph) (machine.Proof, error) {
	p := &Prover{Run: x.RunID, Graph: g}
	blobs := &blobCheck{}
	err := Frames(x, func(kind runfile.Kind, body []byte) error {
		if kind != runfile.KindEntry {
			return blobs.add(kind, body)
		}
		if blobs.started {
			return fmt.Errorf("%w: an entry behind its blobs", runfile.ErrInvalid)
		}
		_, _, err := p.Next(body)
		return err
	})
	if err == nil {
		err = blobs.end()
	}
	if err == nil && (p.seq != x.Records || p.Chain != x.Hash) {
		err = p.fault("entry", p.seq+1, "the journal ends at record %d with chain %x, the header says %d, %x", p.seq, p.Chain, x.Records, x.Hash)
	}
	proof, err := p.proof(err)
	if err != nil {
		return proof, exportRefusal(err)
	}
	return proof, nil
}

// blobCheck checks that each blob of an export file has the size and the hash that the file declares.
type blobCheck struct {
	started bool
	blob    runfile.Blob
	hash    hash.Hash
	size    int64
}

// add takes the next frame of the file. The beginning of a blob ends the check of the previous blob.
func (c *blobCheck) add(kind runfile.Kind, body []byte) (err error) {
	switch kind {
	case runfile.KindBlob:
		if err := c.end(); err != nil {
			return err
		}
		c.started, c.hash, c.size = true, sha256.New(), 0
		c.blob, err = runfile.ReadBlob(body)
		return err
	case runfile.KindPiece:
		if c.hash == nil {
			return fmt.Errorf("%w: a piece of no blob", runfile.ErrInvalid)
		}
		c.hash.Write(body)
		c.size += int64(len(body))
	}
	return nil
}

// end checks a blob after its last piece was read.
func (c *blobCheck) end() error {
	if c.hash == nil || hex.EncodeToString(c.hash.Sum(nil)) == c.blob.SHA256 && c.size == c.blob.Size {
		return nil
	}
	return fmt.Errorf("%w: blob %s has other bytes", runfile.ErrInvalid, c.blob.SHA256)
}
