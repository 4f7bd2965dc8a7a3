// Package gen holds generated code and documents; this file only embeds what Go
// cannot embed from elsewhere.
package gen
