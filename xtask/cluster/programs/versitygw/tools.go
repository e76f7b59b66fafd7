//go:build tools

// Package tools names what is built from this module.
package tools

import (
	_ "github.com/versity/versitygw/cmd/versitygw"
)
