package store

// Sizes returns the disk space in bytes: lsm for the pairs, and log for large values that are stored
// separately. The engine updates these numbers about once a minute.
func (s *Store) Sizes() (lsm, log int64) { return s.engine.Sizes() }
