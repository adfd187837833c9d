/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU models that can be simulated, for Go and for the simulator's libraries: every value stands here once.
 *
 * A name without a size is an alias of the most common model: 40 GB for an A100 and 16 GB for a V100, as in the usual
 * instances of the clouds (AWS p4d and p3, Google a2-highgpu, Azure ND A100 v4 and NCv3), and 96 GB for a GH200. GB in
 * a model's name is the size that NVIDIA sells. What CUDA reports is less: the rest is reserved, for ECC among others.
 *
 * Sources. Compute capabilities: developer.nvidia.com/cuda-gpus. Products: the names that nvidia-smi prints.
 * Multiprocessors, clocks, bus and L2: the letter in each row.
 *
 * Memory, NVML: what nvidia-smi prints with a driver of 2024 or newer (modal-labs/modal-client#2797 for H100, A100,
 * A10, L40S, L4 and T4; bottlerocket-os/bottlerocket-core-kit#834 for A100; nvidia-smi's output in public repositories
 * for the others); with driver 460 or 470 for P100 and older, of which newer ones report more. Memory, CUDA, with such
 * a driver: a for the H200; the total that llama.cpp and ggml print (T4, RTX 3090, 4090 and 5090, L40S, A10, A100-80GB,
 * H100, V100-32GB, GB10, Thor, Orin: outputs in public repositories, such as spiritbuun/buun-llama-cpp#91); deviceQuery
 * (A100-40GB: bottlerocket-os/bottlerocket#3873; P100, K80, K40, K20); PyTorch's total (GH200-144GB; B200:
 * pytorch/ao#4002), and what its out-of-memory errors name, to 10 MiB: 184.31 GiB for a GB200, 94.50 GiB for a
 * GH200-96GB, 22.03 GiB for an L4 (ArcInstitute/evo2#190), 23.50 GiB for an A30 (LHRLAB/ChatKBQA#2), 10.90 GiB for a
 * GTX 1080 Ti. llama.cpp also printed those of RTX 3070, 4070, 5080, RTX PRO 6000 and L20, and Ultralytics' YOLO those
 * of RTX 2080 Ti, TITAN RTX, RTX 3080, A4000 and A5000. V100-16GB: 16144 MiB, in the logs of programs. Older drivers
 * report up to 1.4 % more; needs.py of the plans has for which models. The unified ones share the host's memory, and
 * NVML does not report it.
 *
 *     q  the output of NVIDIA's deviceQuery sample on such a card: bottlerocket-os/bottlerocket#3873 (A100-40GB),
 *        NVIDIA/nccl#1637 (RTX 5090), NVIDIA/cutlass#2784 and Ubuntu's documentation of Tegra (Thor), and outputs that
 *        many public repositories have
 *     b  pytorch/ao#4002, which asked a B200's driver. Drivers before 2026 said 8192 bits. The clock: go-nvml's dgxb200
 *     g  a GB200 has two GPUs, B200 (NVIDIA's data sheet): b. CUDA reports 152 multiprocessors. The clock is computed
 *        from the data sheet's 80 TFLOPS of FP32 for each GPU
 *     a  a card with driver 580.159.04 (tests_py/driver/calls)
 *     h  awslabs/amazon-eks-ami#1985 (clocks); 60 MB of L2 is what PyTorch reports on an H200. Bus: 4.8 TB/s (data
 *        sheet)
 *     s  data sheet: 4.9 TB/s; the rest is as in an H200
 *     o  q, whose memory clock depends on the power mode of the board: 0, as the first drivers for Thor say
 *     w  NVIDIA's white paper of the architecture, product brief of the board or data sheet: the memory clock is half
 *        the data rate
 *     x  the memory that programs saw on the card, in the artifact of the paper xMem (Stone-ResearchLife/xMem)
 *     e  no public output of such a card has CUDA's figure of its memory: NVML's, less what a card of the same kind
 *        reserves
 */
#ifndef GPUCONF_MODELS_H
#define GPUCONF_MODELS_H

#include <stddef.h>
#include <stdint.h>

enum gpuconf_memory { GPUCONF_DEDICATED, GPUCONF_UNIFIED, GPUCONF_COHERENT };

/*
 * X(major, minor, lanes, lanes / lanes of double precision, shared KiB of a multiprocessor, of a block, registers Ki of
 * a multiprocessor, threads of a multiprocessor, blocks of a multiprocessor, greatest priority, granule MiB)
 *
 * The technical specifications by compute capability of NVIDIA's CUDA C++ Programming Guide. NVIDIA/cccl has the same
 * numbers for 6.0 and newer (libcudacxx, arch_traits.h), but 32 blocks where the guide has 24, and 2048 threads
 * for 11.0, where deviceQuery agrees with the guide. Shared memory of a block is what a kernel may opt in to; else it
 * is 48 KiB, and a block has at most 64 Ki registers. Lanes are those of single precision ("CUDA cores"), and those of
 * double precision are in the guide's table of arithmetic throughput. The greatest stream priority (the lowest is 0)
 * and the granule of virtual memory management are what cards answer. (Kepler's granule is unknown; the K80 serves as
 * the card without virtual memory management: 0.)
 */
#define GPUCONF_CAPABILITIES(X) \
	X(3, 5, 192, 3, 48, 48, 64, 2048, 16, -1, 0) \
	X(3, 7, 192, 3, 112, 48, 128, 2048, 16, -1, 0) \
	X(6, 0, 64, 2, 64, 48, 64, 2048, 32, -2, 2) \
	X(6, 1, 128, 32, 96, 48, 64, 2048, 32, -2, 2) \
	X(7, 0, 64, 2, 96, 96, 64, 2048, 32, -5, 2) \
	X(7, 5, 64, 32, 64, 64, 64, 1024, 16, -5, 2) \
	X(8, 0, 64, 2, 164, 163, 64, 2048, 32, -5, 2) \
	X(8, 6, 128, 64, 100, 99, 64, 1536, 16, -5, 2) \
	X(8, 7, 128, 64, 164, 163, 64, 1536, 16, -5, 2) \
	X(8, 9, 128, 64, 100, 99, 64, 1536, 24, -5, 2) \
	X(9, 0, 128, 2, 228, 227, 64, 2048, 32, -5, 2) \
	X(10, 0, 128, 2, 228, 227, 64, 2048, 32, -5, 2) \
	X(10, 3, 128, 64, 228, 227, 64, 2048, 32, -5, 2) \
	X(11, 0, 128, 64, 228, 227, 64, 1536, 24, -5, 2) \
	X(12, 0, 128, 64, 100, 99, 64, 1536, 24, -5, 2) \
	X(12, 1, 128, 64, 100, 99, 64, 1536, 24, -5, 2)

/*
 * X(name, alias or NULL, product, memory that CUDA reports in KiB, that NVML reports in MiB, kind of memory, major,
 * minor, multiprocessors, clock MHz, memory MHz, bus bits, L2 KiB), newest first.
 *
 * GB10, Thor, Orin: the CPU shares the memory. Smaller Orins have the same name.
 * GH200-96GB: the 480 GB in the product's name are the CPU's memory.
 * K80: one of the two GPUs of a board, which CUDA lists as two devices.
 */
#define GPUCONF_MODELS(X) \
	X("B300", "B300-288GB", "NVIDIA B300 SXM6 AC", 274312 << 10, 275040, DEDICATED, 10, 3, 148, 2032, 3996, 7680, \
	    129536) /* w, e */ \
	X("GB200-186GB", "GB200", "NVIDIA GB200", 188733 << 10, 189471, COHERENT, 10, 0, 152, 2056, 3996, 7680, \
	    129536) /* g */ \
	X("B200-180GB", "B200", "NVIDIA B200", 182631 << 10, 183359, DEDICATED, 10, 0, 148, 1965, 3996, 7680, \
	    129536)                                                                                              /* b */ \
	X("GB10", "GB10-128GB", "NVIDIA GB10", 124610 << 10, 124610, UNIFIED, 12, 1, 48, 2418, 8533, 256, 24576) /* q */ \
	X("Thor-128GB", "Thor", "NVIDIA Thor", 125748 << 10, 125748, UNIFIED, 11, 0, 20, 1049, 4266, 256, 32768) /* q */ \
	X("Orin-64GB", "Orin", "Orin (nvgpu)", 62827 << 10, 62827, UNIFIED, 8, 7, 16, 1300, 0, 256, 4096)        /* o */ \
	X("RTXPRO6000", "RTXPRO6000-96GB", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97247 << 10, 97887, \
	    DEDICATED, 12, 0, 188, 2617, 14001, 512, 131072) /* w */ \
	X("RTX5090", "RTX5090-32GB", "NVIDIA GeForce RTX 5090", 32109 << 10, 32607, DEDICATED, 12, 0, 170, 2407, 14001, \
	    512, 98304) /* q */ \
	X("RTX5080", "RTX5080-16GB", "NVIDIA GeForce RTX 5080", 15880 << 10, 16303, DEDICATED, 12, 0, 84, 2617, 15001, \
	    256, 65536) /* w */ \
	X("RTX5070", "RTX5070-12GB", "NVIDIA GeForce RTX 5070", 11820 << 10, 12227, DEDICATED, 12, 0, 48, 2512, 14001, \
	    192, 49152) /* w, e */ \
	X("H200-141GB", "H200", "NVIDIA H200", 146591680, 143771, DEDICATED, 9, 0, 132, 1980, 3201, 6016, \
	    61440) /* h, a */ \
	X("GH200-96GB", "GH200", "NVIDIA GH200 480GB", 96768 << 10, 97871, COHERENT, 9, 0, 132, 1980, 2619, 6144, \
	    61440) /* q */ \
	X("GH200-144GB", NULL, "NVIDIA GH200 144G HBM3e", 145920 << 10, 146831, COHERENT, 9, 0, 132, 1980, 3201, 6144, \
	    61440) /* s */ \
	X("H100-80GB", "H100", "NVIDIA H100 80GB HBM3", 81081 << 10, 81559, DEDICATED, 9, 0, 132, 1980, 2619, 5120, \
	    51200)                                                                                              /* q */ \
	X("H20", "H20-96GB", "NVIDIA H20", 97393 << 10, 97871, DEDICATED, 9, 0, 78, 1980, 2619, 6144, 61440)    /* w, e */ \
	X("L40S", "L40S-48GB", "NVIDIA L40S", 45467 << 10, 46068, DEDICATED, 8, 9, 142, 2520, 9001, 384, 98304) /* q */ \
	X("L20", "L20-48GB", "NVIDIA L20", 45457 << 10, 46068, DEDICATED, 8, 9, 92, 2520, 9001, 384, 98304)     /* w */ \
	X("L4", "L4-24GB", "NVIDIA L4", 22559 << 10, 23034, DEDICATED, 8, 9, 58, 2040, 6251, 192, 49152)        /* q */ \
	X("RTX4090", "RTX4090-24GB", "NVIDIA GeForce RTX 4090", 24210 << 10, 24564, DEDICATED, 8, 9, 128, 2520, 10501, \
	    384, 73728) /* q */ \
	X("RTX4080", "RTX4080-16GB", "NVIDIA GeForce RTX 4080", 15953 << 10, 16376, DEDICATED, 8, 9, 76, 2505, 11201, 256, \
	    65536) /* w, e */ \
	X("RTX4070", "RTX4070-12GB", "NVIDIA GeForce RTX 4070", 11875 << 10, 12282, DEDICATED, 8, 9, 46, 2475, 10501, 192, \
	    36864) /* w */ \
	X("RTX4060", "RTX4060-8GB", "NVIDIA GeForce RTX 4060", 8123264, 8188, DEDICATED, 8, 9, 24, 2460, 8501, 128, \
	    24576) /* w, x */ \
	X("A100-80GB", NULL, "NVIDIA A100-SXM4-80GB", 81151 << 10, 81920, DEDICATED, 8, 0, 108, 1410, 1593, 5120, \
	    40960) /* q */ \
	X("A100-40GB", "A100", "NVIDIA A100-SXM4-40GB", 40339 << 10, 40960, DEDICATED, 8, 0, 108, 1410, 1215, 5120, \
	    40960)                                                                                            /* q */ \
	X("A30", "A30-24GB", "NVIDIA A30", 24064 << 10, 24576, DEDICATED, 8, 0, 56, 1440, 1215, 3072, 24576)  /* w */ \
	X("A10-24GB", "A10", "NVIDIA A10", 22731 << 10, 23028, DEDICATED, 8, 6, 72, 1695, 6251, 384, 6144)    /* q */ \
	X("A10G", "A10G-24GB", "NVIDIA A10G", 22731 << 10, 23028, DEDICATED, 8, 6, 80, 1710, 6251, 384, 6144) /* q, e */ \
	X("A40", "A40-48GB", "NVIDIA A40", 45467 << 10, 46068, DEDICATED, 8, 6, 84, 1740, 7251, 384, 6144)    /* w, e */ \
	X("A16", "A16-16GB", "NVIDIA A16", 14908 << 10, 15356, DEDICATED, 8, 6, 10, 1755, 6251, 128, 2048)    /* w, e */ \
	X("A2", "A2-16GB", "NVIDIA A2", 14908 << 10, 15356, DEDICATED, 8, 6, 10, 1770, 6251, 128, 2048)       /* w, e */ \
	X("A6000", "RTXA6000", "NVIDIA RTX A6000", 48539 << 10, 49140, DEDICATED, 8, 6, 84, 1800, 8001, 384, \
	    6144) /* w, e */ \
	X("A5000", "RTXA5000", "NVIDIA RTX A5000", 24248 << 10, 24564, DEDICATED, 8, 6, 64, 1695, 8001, 384, 6144) /* w */ \
	X("A4000", "RTXA4000", "NVIDIA RTX A4000", 16117 << 10, 16376, DEDICATED, 8, 6, 48, 1560, 7001, 256, 4096) /* w */ \
	X("RTX3090", "RTX3090-24GB", "NVIDIA GeForce RTX 3090", 24123 << 10, 24576, DEDICATED, 8, 6, 82, 1695, 9751, 384, \
	    6144) /* q */ \
	X("RTX3080", "RTX3080-10GB", "NVIDIA GeForce RTX 3080", 10002 << 10, 10240, DEDICATED, 8, 6, 68, 1710, 9501, 320, \
	    5120) /* w */ \
	X("RTX3070", "RTX3070-8GB", "NVIDIA GeForce RTX 3070", 7819 << 10, 8192, DEDICATED, 8, 6, 46, 1725, 7001, 256, \
	    4096) /* w */ \
	X("RTX3060", "RTX3060-12GB", "NVIDIA GeForce RTX 3060", 12326336, 12288, DEDICATED, 8, 6, 28, 1777, 7501, 192, \
	    2304) /* w, x */ \
	X("TITANRTX", "TITANRTX-24GB", "NVIDIA TITAN RTX", 24212 << 10, 24576, DEDICATED, 7, 5, 72, 1770, 7001, 384, \
	    6144)                                                                                      /* w */ \
	X("T4", "T4-16GB", "Tesla T4", 14912 << 10, 15360, DEDICATED, 7, 5, 40, 1590, 5001, 256, 4096) /* q */ \
	X("RTX2080Ti", "RTX2080Ti-11GB", "NVIDIA GeForce RTX 2080 Ti", 10825 << 10, 11264, DEDICATED, 7, 5, 68, 1545, \
	    7000, 352, 5632) /* w */ \
	X("RTX2070", "RTX2070-8GB", "NVIDIA GeForce RTX 2070", 7819 << 10, 8192, DEDICATED, 7, 5, 36, 1620, 7001, 256, \
	    4096) /* w, e */ \
	X("V100-32GB", NULL, "Tesla V100-SXM2-32GB", 32494 << 10, 32768, DEDICATED, 7, 0, 80, 1530, 877, 4096, \
	    6144) /* q */ \
	X("V100-16GB", "V100", "Tesla V100-SXM2-16GB", 16144 << 10, 16384, DEDICATED, 7, 0, 80, 1530, 877, 4096, \
	    6144) /* q */ \
	X("GTX1080Ti", "GTX1080Ti-11GB", "NVIDIA GeForce GTX 1080 Ti", 11162 << 10, 11264, DEDICATED, 6, 1, 28, 1582, \
	    5505, 352, 2816) /* q */ \
	X("P100-16GB", "P100", "Tesla P100-SXM2-16GB", 16276 << 10, 16280, DEDICATED, 6, 0, 56, 1480, 715, 4096, \
	    4096) /* w */ \
	X("P100-12GB", NULL, "Tesla P100-PCIE-12GB", 12198 << 10, 12198, DEDICATED, 6, 0, 56, 1329, 715, 3072, \
	    3072)                                                                                      /* q */ \
	X("K80", "K80-12GB", "Tesla K80", 11715776, 11442, DEDICATED, 3, 7, 13, 824, 2505, 384, 1536)  /* q */ \
	X("K40", "K40-12GB", "Tesla K40c", 11715776, 11442, DEDICATED, 3, 5, 15, 745, 3004, 384, 1536) /* q */ \
	X("K20", "K20-5GB", "Tesla K20m", 4914752, 4800, DEDICATED, 3, 5, 13, 706, 2600, 320, 1280)    /* q */

/* X(model, profile, slices of a card, MiB, multiprocessors) of the smallest MIG instance, as in go-nvml's mock servers.
 */
#define GPUCONF_SLICES(X) \
	X("B200-180GB", "1g.23gb", 8, 23552, 18) \
	X("H200-141GB", "1g.18gb", 8, 18432, 16) \
	X("H100-80GB", "1g.10gb", 8, 10240, 16) \
	X("A100-80GB", "1g.10gb", 8, 9856, 14) \
	X("A100-40GB", "1g.5gb", 8, 4864, 14) \
	X("A30", "1g.6gb", 4, 5836, 14)

/*
 * X(major number of the compute capability up to which a row counts, MiB): the memory that a process's CUDA context
 * takes on a card. A lease reserves it, a plan counts it, and a simulated card has it taken under the profile contexts.
 *
 * No API returns it before the context exists. It grows with the number of multiprocessors, 3 to 4 MiB for each since
 * compute capability 8, so the value is that of the largest card of an architecture with a public figure, rounded up.
 * Kernels that a library loads come on top: PyTorch's and cuDNN's are loaded when they are first used. Figures, all for
 * one process that has allocated nothing or next to nothing:
 *
 *     306 MiB  Tesla K80, 13 multiprocessors, CUDA 8, PyTorch 0.4's kernels   github.com/pytorch/pytorch/issues/7320
 *     320 MiB  Titan V, 80 multiprocessors, CUDA 10, PyCUDA                   github.com/pytorch/pytorch/issues/28394
 *     256 MiB  RTX 3090, 82 multiprocessors, PyTorch 2.7                      github.com/invoke-ai/InvokeAI/issues/9413
 *     426 MiB  RTX 6000 Ada, 142 multiprocessors, PyTorch 2.10               github.com/unslothai/unsloth-zoo/pull/1053
 *     107 MiB  RTX 4060 Ti, 34 multiprocessors                                github.com/ggml-org/llama.cpp/pull/23604
 *     555 MiB  RTX PRO 6000 Blackwell, 188 multiprocessors                    github.com/ggml-org/llama.cpp/pull/23604
 *     524 MiB  H200, 132 multiprocessors, driver 580.159, and 3 MiB that cuInit takes. A second context of the process
 *              takes 524 MiB more (tests_py/driver/calls)
 *
 * On that H200 PyTorch 2.11's first tensor made it 616 MiB, and its first matrix product 682 MiB.
 */
#define GPUCONF_CONTEXTS(X) X(7, 320) X(8, 448) X(9, 528) X(INT_MAX, 576)

/*
 * X(CUDA version, driver): those that tests_py/driver has recorded, else the driver that NVIDIA's CUDA release
 * notes name for the version's first release.
 */
/* clang-format off */
#define GPUCONF_DRIVERS(X) \
	X(11000, "450.51.05") X(11010, "455.23.04") X(11020, "460.27.03") X(11030, "465.19.01") \
	X(11040, "470.256.02") X(11050, "495.29.05") X(11060, "510.39.01") X(11070, "515.43.04") \
	X(11080, "520.61.05") X(12000, "525.147.05") X(12010, "530.30.02") X(12020, "535.261.03") \
	X(12030, "545.23.06") X(12040, "550.163.01") X(12050, "555.58.02") X(12060, "560.28.03") \
	X(12080, "570.26.00") X(12090, "575.51.03") X(13000, "580.65.06") X(13010, "590.44.01") X(13040, "615.71.09")
/* clang-format on */

struct gpuconf_capability {
	int major, minor, lanes, lanes_for_double; /* of single precision; for each of double precision */
	int shared_bytes, shared_bytes_of_block;   /* of a multiprocessor; of a block that opts in */
	int registers;                             /* of a multiprocessor */
	int threads, blocks;                       /* of a multiprocessor */
	int greatest_priority;
	uint64_t granularity; /* 0 without virtual memory management */
};

/* What CUDA derives from these: integrated is unified memory, and concurrent managed access needs page faults (6.0 or
 * newer). */
struct gpuconf_model {
	const char *name, *alias, *product; /* alias may be NULL */
	uint64_t memory, physical;          /* as CUDA and as NVML report it */
	enum gpuconf_memory kind;
	const struct gpuconf_capability *capability;
	int multiprocessors, clock_mhz, memory_mhz, bus_bits, l2_bytes; /* 0: unknown */
};

/* The smallest MIG instance of a model. */
struct gpuconf_slice {
	const char *model, *name;
	int slices; /* of memory and L2, on a card */
	int memory_mib, multiprocessors;
};

/* A CUDA version, as 12040, and a driver for it. */
struct gpuconf_driver {
	int cuda;
	const char *version;
};

/* All return NULL behind the last one. */
const struct gpuconf_model *gpuconf_model(int index);
const struct gpuconf_capability *gpuconf_capability(int major, int minor);
const struct gpuconf_driver *gpuconf_driver(int index);

/* What a context takes of a card. A small card, or an instance of a large one, has few multiprocessors: it is at most
 * an eighth of the memory. */
uint64_t gpuconf_context(uint64_t memory, int major);

/* NULL for a model without MIG, or of which the sizes are not known. */
const struct gpuconf_slice *gpuconf_slice(const struct gpuconf_model *model);

#endif
