// SPDX-License-Identifier: Apache-2.0

package graph

import "gpuconf/gocore/machine/devname"

// Scope is one `with device(...)` around the creation of nodes in a graph.
type Scope struct {
	None      bool   // device(None): outer scopes are ignored
	Device    string // a device string: it sets the parts that are still unset
	Overwrite bool   // Device is the result of a device function: it replaces the request
}

// Request returns the device string for a node inside scopes, which are listed outermost first and applied innermost
// first. own is the node's own request, "" for none.
//
// A device function must see the request that results from the scopes inside its own. So a caller that has functions
// among its scopes calls Request for the inner scopes, then the function, and passes its result as a Scope.
func Request(own string, scopes []Scope) (string, error) {
	request, err := devname.ParseSpec(own)
	if err != nil {
		return "", err
	}
	for i := len(scopes) - 1; i >= 0 && !scopes[i].None; i-- {
		outer, err := devname.ParseSpec(scopes[i].Device)
		if err != nil {
			return "", err
		}
		if scopes[i].Overwrite {
			request = outer
			continue
		}
		request = outer.Override(request)
	}
	return request.String(), nil
}
