package graph

import "gpuconf/gocore/devname"

// Scope is one `with device(...)` around the making of nodes in a graph.
type Scope struct {
	None      bool   // None: what is outside counts no more
	Device    string // a device string: it fills in what is still open
	Overwrite bool   // Device is what a device function answered: it replaces what was there
}

// Request gives the device string for a node inside some scopes, the outermost first. The innermost is applied first. own
// is what the node asks for itself, "" for nothing.
//
// A device function wants to see what the scopes inside its own have made of the node. So a caller that has functions
// among its scopes calls Request for the scopes inside, then the function, and puts its answer in as a Scope.
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
