//go:build tools

// Package tools names what is built from this module.
package tools

import (
	_ "github.com/cilium/cilium/daemon"
	_ "github.com/cilium/cilium/plugins/cilium-cni"
)
