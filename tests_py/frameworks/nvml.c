/*
 * The NVML functions that PyTorch calls: before it maps an expandable segment it asks whether the GPU belongs to an NVLink fabric, which
 * this one does not.
 */
#define NVML_ERROR_NOT_SUPPORTED 3

int nvmlInit_v2(void) { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
	(void)id;
	*device = (void *)1;
	return 0;
}

int nvmlDeviceGetGpuFabricInfoV(void *device, void *info)
{
	(void)device;
	(void)info;
	return NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void) { return NVML_ERROR_NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return NVML_ERROR_NOT_SUPPORTED; }

/* For the text of an out-of-memory error. */
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes)
{
	(void)device;
	(void)processes;
	*count = 0;
	return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(void) { return NVML_ERROR_NOT_SUPPORTED; }
