// Package config holds every setting of the sidecar: one [Config], its
// defaults, its validation and the order in which a YAML file, PAWL_*
// environment variables and flags overrule each other.
//
// The commands read it and app obeys it. It imports the bounds of YAML only. Invariant: a
// setting has one name in three spellings and is refused before anything is opened;
// what is secret is a file's path, never a value.
package config
