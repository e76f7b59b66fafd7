//go:build tools

// Package tools names what is built from this module.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
