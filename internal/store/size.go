package store

// Sizes are the bytes on disk of the pairs, and of large values that lie apart, as the engine
// noted them in the last minute.
func (s *Store) Sizes() (lsm, log int64) { return s.engine.Sizes() }
