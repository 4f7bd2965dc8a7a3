// Package deploy tests the files in deploy/ that other programs read: the Kubernetes objects that
// kustomize renders, and the compose files. It is a module of its own, so that the types of Kubernetes
// and of compose are no dependencies of Pawl.
package deploy
