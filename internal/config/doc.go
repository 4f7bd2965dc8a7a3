// Package config holds every setting of the sidecar: one [Config], its defaults, its validation and the order
// in which a YAML file, PAWL_* environment variables and flags override each other.
//
// The commands read it and the server applies it. Invariant: a setting has one name in three spellings and is checked
// before any file that a setting names is opened. A secret setting is the path of a file, never a value; only the URL of
// the store may contain its password.
package config
