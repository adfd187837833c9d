// Package human writes numbers for people, in TensorFlow's form, since messages of both stand side by side.
package human
