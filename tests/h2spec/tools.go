//go:build tools

// Package h2spec names the program that tries out a server's HTTP/2.
package h2spec

import (
	_ "github.com/summerwind/h2spec/cmd/h2spec"
)
