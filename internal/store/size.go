package store

// Sizes are the bytes on disk of the tree and of the value log, as Badger noted them
// in the last minute.
func (s *Store) Sizes() (lsm, log int64) { return s.db.Size() }
