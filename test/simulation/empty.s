//go:build sim

// Functions without a body come by linkname, see seed.go.
