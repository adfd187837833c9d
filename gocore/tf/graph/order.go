// SPDX-License-Identifier: Apache-2.0

package graph

// adjacency holds lists of node numbers in one array: list i is lists[start[i]:start[i+1]].
type adjacency struct {
	start, lists []int32
}

func (a adjacency) of(i int) []int32 { return a.lists[a.start[i]:a.start[i+1]] }

// newReaders lists, for each node, the nodes that read it, once per read, and those that only wait for it, in order.
// The nodes are numbered from first.
func newReaders(nodes []*Node, first int) adjacency {
	a := adjacency{start: make([]int32, len(nodes)+1)}
	each := func(use func(input, reader int)) {
		for _, n := range nodes {
			for _, before := range [][]*Node{n.inputs, n.controls} {
				for _, input := range before {
					if input.id >= first {
						use(input.id-first, n.id)
					}
				}
			}
		}
	}
	each(func(input, _ int) { a.start[input+1]++ })
	for i := range nodes {
		a.start[i+1] += a.start[i]
	}
	a.lists = make([]int32, a.start[len(nodes)])
	end := append([]int32(nil), a.start...)
	each(func(input, reader int) {
		a.lists[end[input]] = int32(reader)
		end[input]++
	})
	return a
}

// loadingOrder returns the order in which TensorFlow loads a graph, logs placements and reports errors: of the nodes
// whose inputs are loaded, the one that became ready last comes next.
func loadingOrder(readers adjacency, first int) []int32 {
	waiting := make([]int32, len(readers.start)-1) // by node: inputs not yet loaded
	for _, reader := range readers.lists {
		waiting[int(reader)-first]++
	}
	var ready []int32
	for i, inputs := range waiting {
		if inputs == 0 {
			ready = append(ready, int32(i))
		}
	}
	order := make([]int32, 0, len(waiting))
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		order = append(order, i+int32(first))
		for _, reader := range readers.of(int(i)) {
			if waiting[int(reader)-first]--; waiting[int(reader)-first] == 0 {
				ready = append(ready, reader-int32(first))
			}
		}
	}
	return order
}
