package pg

import (
	"bytes"
	"io"
)

// keys are the keys of runs in the server, as a medium.
type keys struct{ db *DB }

// at returns the partition and locks the server until done is called.
func (k *keys) at() (s *part, done func(), err error) {
	k.db.server.stopped(k.db.cfg.Address)
	k.db.server.pass()
	k.db.server.mu.Lock()
	if err := k.db.server.alive(k.db.life, k.db.cfg.Address); err != nil {
		k.db.server.mu.Unlock()
		return nil, nil, err
	}
	return k.db.server.now.parts[k.db.cfg.Part], k.db.server.mu.Unlock, nil
}

func (k *keys) ReadAt(b []byte, at int64) (int, error) {
	s, done, err := k.at()
	if err != nil {
		return 0, err
	}
	defer done()
	return bytes.NewReader(s.keys).ReadAt(b, at)
}

func (k *keys) Size() (int64, bool, error) {
	s, done, err := k.at()
	if err != nil {
		return 0, false, err
	}
	defer done()
	return int64(len(s.keys)), s.keys != nil, nil
}

func (k *keys) Create(header []byte) error { return k.Write("header", header, 0) }

// Write is durable. Everything that was written before is then also durable.
func (k *keys) Write(_ string, b []byte, at int64) error {
	s, done, err := k.at()
	if err != nil {
		return err
	}
	defer done()
	if at > int64(len(s.keys)) {
		return io.ErrShortWrite
	}
	s.keys = append(s.keys[:at:at], append(bytes.Clone(b), s.keys[min(at+int64(len(b)), int64(len(s.keys))):]...)...)
	k.db.server.standby = k.db.server.now.clone()
	return nil
}

func (k *keys) Close() error { return nil }
