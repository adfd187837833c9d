// SPDX-License-Identifier: Apache-2.0

// Package human formats numbers for people, in TensorFlow's format, because messages of both appear side by side.
package human
