// Package kubernetes_test holds what gpuconf env --format kubernetes prints against the types of Kubernetes' API.
//
// It is a module of its own, so that gpuconf's own module does not need k8s.io/api.
package kubernetes_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// fragment returns what the command, which is on PATH, prints for these options.
func fragment(t *testing.T, options ...string) corev1.Pod {
	t.Helper()
	command := exec.Command("gpuconf", append([]string{"env", "--format", "kubernetes"}, options...)...)
	printed, err := command.Output()
	require.NoError(t, err, "%s", printed)
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict(printed, &pod), "%s", printed)
	return pod
}

func TestAPodGetsItsLimits(t *testing.T) {
	t.Setenv("GPUCONF_SIMULATE", "2xA100-40GB") // a machine with two cards
	pod := fragment(t, "--memory", "10GiB", "--growth")
	require.Len(t, pod.Spec.Containers, 1)
	container := pod.Spec.Containers[0]
	gpus := container.Resources.Limits["nvidia.com/gpu"]
	require.EqualValues(t, 2, gpus.Value())
	values := map[string]string{}
	for _, variable := range container.Env {
		require.NotContains(t, values, variable.Name, "a variable twice")
		values[variable.Name] = variable.Value
	}
	require.Equal(t, "10240", values["NVIDIA_GPU_MEMORY_LIMIT"], "MiB, which NVIDIA's toolkit reads")
	require.Equal(t, "10737418240", values["GPUCONF_LIMIT"])
	require.Equal(t, "true", values["TF_FORCE_GPU_ALLOW_GROWTH"], "a text, and not a truth value of YAML")
	require.NotContains(t, values, "PYTHONPATH", "a folder of this machine")
	require.NotContains(t, values, "LD_LIBRARY_PATH", "a folder of this machine")
}

func TestWithoutAGPUHereThePodAsksForOne(t *testing.T) {
	gpus := fragment(t, "--memory", "1.5GiB").Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
	require.EqualValues(t, 1, gpus.Value())
}

func TestAPodWithSimulatedGPUsAsksForNone(t *testing.T) {
	require.Empty(t, fragment(t, "--memory", "1GiB", "--simulate", "T4").Spec.Containers[0].Resources.Limits)
}
