// Package secretfile reads files with secrets or rights: bearer tokens, private keys, lists of principals and their scopes. It refuses a
// file that users other than its owner could have written. If the content is secret, it also refuses a file that other users could have
// read.
//
// Invariant: the permissions that are checked belong to the file that is read, because both use one descriptor. No error contains the
// content of a file.
package secretfile
