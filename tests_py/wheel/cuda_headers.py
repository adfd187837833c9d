"""Checks what the simulated CUDA libraries state against NVIDIA's headers: layouts of structures and numbers of
statuses.

    cuda_headers.py [--write] [FOLDER]

With --write it writes the constants of the driver that gpuconf's C uses (CONSTANTS), and where the runtime's
cudaDeviceProp has the driver's attributes (PROPERTIES). It downloads the wheels of the
CUDA runtimes that PyTorch is built for, and of the libraries above them (2 GB), keeps their headers in the folder,
reads them with the C compiler, and installs nothing. What differs is printed, and is an error.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from torch_imports import STATUS

ROOT = Path(__file__).resolve().parent.parent.parent
PROPERTIES = ROOT / "gocore/sim/runtime/properties.h"
# PyTorch's wheels of 2.6 to 2.15 are built for these.
RUNTIMES = (
    "nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cuda-runtime-cu12==12.6.77", "nvidia-cuda-runtime-cu12==12.8.90",
    "nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-runtime==13.2.86",
)  # fmt: skip
# The wheel, its header, and the header's name for the status that an unsupported call returns.
LIBRARIES = {
    "cublas": ("nvidia-cublas==13.4.1.3", "cublas_api.h", "CUBLAS_STATUS_NOT_SUPPORTED"),
    "cufft": ("nvidia-cufft==12.2.0.57", "cufft.h", "CUFFT_NOT_SUPPORTED"),
    "cudnn": ("nvidia-cudnn-cu13==9.26.0.51", "cudnn_graph_v9.h", "CUDNN_STATUS_NOT_SUPPORTED"),
    "curand": ("nvidia-curand==10.4.0.35", "curand.h", "CURAND_STATUS_INTERNAL_ERROR"),
    "cusolver": ("nvidia-cusolver==12.2.0.11", "cusolver_common.h", "CUSOLVER_STATUS_NOT_SUPPORTED"),
    "cusparse": ("nvidia-cusparse==12.7.10.12", "cusparse.h", "CUSPARSE_STATUS_NOT_SUPPORTED"),
    "nccl": ("nvidia-nccl-cu13==2.30.7", "nccl.h", "ncclInternalError"),
    "nvrtc": ("nvidia-cuda-nvrtc==13.2.86", "nvrtc.h", "NVRTC_ERROR_INTERNAL_ERROR"),
    "cupti": ("nvidia-cuda-cupti==13.2.86", "cupti_result.h", "CUPTI_ERROR_NOT_SUPPORTED"),
    "cuFile": ("nvidia-cufile==1.17.1.22", "cufile.h", "CU_FILE_PLATFORM_NOT_SUPPORTED"),
    "cuda": ("nvidia-cuda-runtime==13.2.86", "driver_types.h", "cudaErrorNotSupported"),
}
# What the wheels' headers include and no wheel of these has: the compiler's own words, without a meaning here.
WORDS = """__host__ __device__ __global__ __shared__ __constant__ __managed__ __device_builtin__ __cudart_builtin__
CUDARTAPI CUDARTAPI_CDECL __device_builtin_texture_type__ __device_builtin_surface_type__ __forceinline__
__specialization_static __location__(a) CUDAAPI _CRTIMP"""
ALIGNED = ("#define __align__(n) __attribute__((aligned(n)))", "#define __builtin_align__(n) __align__(n)")
COMPILER = "\n".join([*(f"#define {word}" for word in WORDS.split()), *ALIGNED, ""])


def headers_of(wheel: str, folder: Path) -> list[Path]:
    """Download a wheel and unpack its headers. Returns the folders that have some."""
    place = folder / wheel.replace("==", "-")
    if not place.exists():
        words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        subprocess.run([sys.executable, "-m", "pip", *words, "--dest", str(folder / "wheels"), wheel], check=True)
        name, version = wheel.split("==")
        (file,) = (folder / "wheels").glob(f"{name.replace('-', '_')}-{version}-*.whl")
        with zipfile.ZipFile(file) as packed:
            packed.extractall(place, [name for name in packed.namelist() if "/include/" in name])
        file.unlink()
    return sorted({path for path in place.rglob("include") if path.is_dir()})


def evaluate(wheel: str, header: str, expressions: list[str], folder: Path) -> list[int]:
    """Return the values of C expressions over a wheel's header."""
    crt = folder / "compiler" / "crt"
    crt.mkdir(parents=True, exist_ok=True)
    (crt / "host_defines.h").write_text(COMPILER)
    print_all = "".join(f'printf("%lld\\n", (long long)({expression}));' for expression in expressions)
    source = (
        f"#include <stddef.h>\n#include <stdio.h>\n#include <{header}>\nint main(void) {{ {print_all} return 0; }}\n"
    )
    includes = [f"-I{path}" for path in headers_of(wheel, folder)] + [f"-I{crt.parent}"]
    program = folder / "program"
    subprocess.run(["cc", "-w", "-x", "c", *includes, "-o", str(program), "-"], input=source, text=True, check=True)
    return list(map(int, subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()))


def layouts(folder: Path) -> list[str]:
    """Return how cudaDeviceProp and the structures of attributes differ from what the simulated runtime writes."""
    rows = re.findall(r"^PROPERTY\((\w+), (\d+), (-?\d+), (-?\d+)\) /\* (\S+) \*/", PROPERTIES.read_text(), re.M)
    complaints = []
    for wheel in RUNTIMES:
        newer = "==13" in wheel
        expected = {"uuid": 256, "totalGlobalMem": 288} | {row[4]: int(row[3 if newer else 2]) for row in rows}
        expected = {field: offset for field, offset in expected.items() if offset >= 0}
        sizes = {
            "struct cudaDeviceProp": 1008 if newer else 1032,
            "struct cudaFuncAttributes": 144,
            "struct cudaPointerAttributes": 88 if newer else 24,
        }
        wanted = [
            *(f"offsetof(struct cudaDeviceProp, {field})" for field in expected),
            *(f"sizeof({name})" for name in sizes),
        ]
        widths = {row[4]: int(row[1]) for row in rows if row[4] in expected}
        wanted += [
            f"sizeof(((struct cudaDeviceProp *)0)->{field}{'[0]' if field in ARRAYS else ''})" for field in widths
        ]
        stated = [*expected.values(), *sizes.values(), *widths.values()]
        for what, here, there in zip(wanted, stated, evaluate(wheel, "driver_types.h", wanted, folder), strict=True):
            if here != there:
                complaints.append(f"{wheel}: {what} is {there}, not {here}")
    return complaints


# Their first elements are rows of their own.
ARRAYS = ("maxThreadsDim", "maxGridSize", "maxTexture2D", "maxTexture3D")


def statuses(folder: Path) -> list[str]:
    """Return which libraries' statuses differ from the list of functions."""
    complaints = []
    for prefix, (wheel, header, name) in LIBRARIES.items():
        (file,) = (path / header for path in headers_of(wheel, folder) if (path / header).exists())
        # cuFile's are places of a macro: (CUFILEOP_BASE_ERR + 7, NAME, ...).
        found = re.search(rf"\b{name}\s*=\s*(\w+)|BASE_ERR \+ (\d+), *{name}\b", file.read_text())
        assert found, f"{wheel}: {header} does not have {name}"
        there = 5000 + int(found[2]) if found[2] else int(found[1], 0)
        if there != dict(STATUS)[prefix]:
            complaints.append(f"{wheel}: {name} is {there}, not {dict(STATUS)[prefix]}")
    return complaints


CONSTANTS = ROOT / "gocore/machine/cuda/constants.h"
# Types of cuda.h, and the beginnings of its macros.
TYPES = [
    "CUdevice_attribute",
    "CUdevice_P2PAttribute",
    "CUarray_format",
    "CUmemorytype",
    "CUpointer_attribute",
    "CUfunction_attribute",
    "CUlimit",
    "CUctx_flags",
    "CUstream_flags",
    "CUevent_flags",
    "CUmemLocationType",
    "CUmemAllocationType",
    "CUmemAllocationHandleType",
    "CUmemAccess_flags",
    "CUmemAttach_flags",
    "CUmem_advise",
    "CUmemPool_attribute",
    "CUgraphMem_attribute",
    "CUgraphNodeType",
    "CUgraphInstantiate_flags",
    "CUstreamCaptureMode",
    "CUstreamCaptureStatus",
    "CUstreamWaitValue_flags",
    "CUstreamBatchMemOpType",
    "CUipcMem_flags",
    "CUexternalMemoryHandleType",
    "CUexternalSemaphoreHandleType",
    "CUevent_record_flags",
    "CUfunc_cache",
    "CUsharedconfig",
    "CUexecAffinityType",
    "CUflushGPUDirectRDMAWritesScope",
    "CUflushGPUDirectRDMAWritesTarget",
    "CUGPUDirectRDMAWritesOrdering",
    "CUmoduleLoadingMode",
    "CUoccupancy_flags",
    "CUstreamUpdateCaptureDependencies_flags",
    "CUuserObject_flags",
    "CUuserObjectRetain_flags",
    "CUarraySparseSubresourceType",
    "CUmemOperationType",
    "CUmulticastGranularity_flags",
    "CUmemAllocationGranularity_flags",
    "CUdriverProcAddress_flags",
    "CUdriverProcAddressQueryResult",
    "CUevent_wait_flags",
    "CUtensorMapDataType",
    "CUtensorMapInterleave",
    "CUtensorMapSwizzle",
    "CUtensorMapL2promotion",
    "CUtensorMapFloatOOBfill",
]
MACROS = ("CU_MEMHOSTALLOC_", "CU_MEMHOSTREGISTER_", "CUDA_ARRAY3D_", "CU_MEM_CREATE_USAGE_", "CUDA_EXTERNAL_MEMORY_")


def constants(header: str) -> dict[str, list[str]]:
    """Return the names of the constants by their type, "" for macros, in the order of the text of cuda.h."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.DOTALL)
    found = {}
    for name in TYPES:
        (body,) = re.findall(rf"typedef enum \w+\s*{{([^}}]*)}}\s*{name};", plain)
        names = re.findall(r"(?:^|,)\s*(CU\w+)", re.sub(r"^#.*", "", body, flags=re.MULTILINE))
        found[name] = [one for one in names if not one.endswith("_MAX")]
    found[""] = re.findall(rf"#define ((?:{'|'.join(MACROS)})\w+) ", plain)
    return found


def write_constants(folder: Path) -> None:
    """Write the header of constants, as NVIDIA's newest runtime has them."""
    (file,) = (path / "cuda.h" for path in headers_of(RUNTIMES[-1], folder) if (path / "cuda.h").exists())
    types = constants(file.read_text())
    every = [name for names in types.values() for name in names]
    values = dict(zip(every, evaluate(RUNTIMES[-1], "cuda.h", every, folder), strict=True))
    text = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        f"/* Code generated by tests_py/wheel/cuda_headers.py from cuda.h of {RUNTIMES[-1]}; DO NOT EDIT. */",
        "#ifndef GPUCONF_CUDA_CONSTANTS_H",
        "#define GPUCONF_CUDA_CONSTANTS_H",
    ]
    for name, names in types.items():
        text += ["", f"enum {{ /* {name or 'macros'} */"]
        form = "#x" if name == "CUarray_format" else "d"  # as cuda.h has them
        text += [f"\t{one} = {values[one]:{form}}," for one in names]
        text.append("};")
    CONSTANTS.write_text("\n".join([*text, "", "#endif", ""]))


# Fields of cudaDeviceProp with another name than the attribute that they have.
OTHERWISE = dict(
    pair.split("=")
    for pair in """
    MAX_BLOCK_DIM_X=maxThreadsDim MAX_BLOCK_DIM_Y=maxThreadsDim[1] MAX_BLOCK_DIM_Z=maxThreadsDim[2]
    MAX_GRID_DIM_X=maxGridSize MAX_GRID_DIM_Y=maxGridSize[1] MAX_GRID_DIM_Z=maxGridSize[2]
    MAXIMUM_TEXTURE1D_WIDTH=maxTexture1D MAXIMUM_TEXTURE2D_WIDTH=maxTexture2D MAXIMUM_TEXTURE2D_HEIGHT=maxTexture2D[1]
    MAXIMUM_TEXTURE3D_WIDTH=maxTexture3D MAXIMUM_TEXTURE3D_HEIGHT=maxTexture3D[1]
    MAXIMUM_TEXTURE3D_DEPTH=maxTexture3D[2] MAX_SHARED_MEMORY_PER_BLOCK=sharedMemPerBlock
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=sharedMemPerBlockOptin RESERVED_SHARED_MEMORY_PER_BLOCK=reservedSharedMemPerBlock
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=sharedMemPerMultiprocessor TOTAL_CONSTANT_MEMORY=totalConstMem
    MAX_PITCH=memPitch MAX_REGISTERS_PER_BLOCK=regsPerBlock MAX_REGISTERS_PER_MULTIPROCESSOR=regsPerMultiprocessor
    GPU_OVERLAP=deviceOverlap KERNEL_EXEC_TIMEOUT=kernelExecTimeoutEnabled GLOBAL_MEMORY_BUS_WIDTH=memoryBusWidth
    COMPUTE_CAPABILITY_MAJOR=major COMPUTE_CAPABILITY_MINOR=minor MULTI_GPU_BOARD=isMultiGpuBoard
    MAX_PERSISTING_L2_CACHE_SIZE=persistingL2CacheMaxSize MAX_ACCESS_POLICY_WINDOW_SIZE=accessPolicyMaxWindowSize
    READ_ONLY_HOST_REGISTER_SUPPORTED=hostRegisterReadOnlySupported
    MEMPOOL_SUPPORTED_HANDLE_TYPES=memoryPoolSupportedHandleTypes""".split()
)


def fields_of_properties(wheel: str, folder: Path) -> list[str]:
    """Return the names of the fields of cudaDeviceProp."""
    (file,) = (path / "driver_types.h" for path in headers_of(wheel, folder) if (path / "driver_types.h").exists())
    (body,) = re.findall(r"struct \w+ cudaDeviceProp\s*{(.*?)};", file.read_text(), re.DOTALL)
    return re.findall(r"(\w+)(?:\[\d+\])*;", body)


def write_properties(folder: Path) -> None:
    """Write where cudaDeviceProp has the driver's attributes, by its number, in CUDA 12 and 13."""
    older, newer = RUNTIMES[3], RUNTIMES[-1]
    fields = fields_of_properties(older, folder)
    by_name = {field.lower(): field for field in fields}
    rows: dict[str, str] = {}
    for attribute in re.findall(r"\bCU_DEVICE_ATTRIBUTE_(\w+) = ", CONSTANTS.read_text()):
        field = OTHERWISE.get(attribute) or by_name.get(attribute.replace("_", "").lower())
        if field and field not in rows.values():
            rows[attribute] = field
    element = {field: f"{field}[0]" if field in ARRAYS else field for field in rows.values()}
    prop = "struct cudaDeviceProp"
    widths = evaluate(older, "driver_types.h", [f"sizeof((({prop} *)0)->{one})" for one in element.values()], folder)
    offsets = evaluate(older, "driver_types.h", [f"offsetof({prop}, {field})" for field in rows.values()], folder)
    kept = set(fields_of_properties(newer, folder))
    there = [field for field in rows.values() if field.split("[")[0] in kept]
    moved = evaluate(newer, "driver_types.h", [f"offsetof({prop}, {field})" for field in there], folder)
    later = dict(zip(there, moved, strict=True))
    text = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Code generated by tests_py/wheel/cuda_headers.py; DO NOT EDIT. */",
        "/*",
        " * PROPERTY(attribute of the driver, bytes, offset in cudaDeviceProp of CUDA 12, of CUDA 13 or -1), as in",
        " * driver_types.h of the wheels nvidia-cuda-runtime-cu12 12.4 to 12.9 and nvidia-cuda-runtime 13.0 and 13.2",
        " * (make check WHAT=cuda-headers).",
        " */",
    ]
    for (attribute, field), width, offset in zip(rows.items(), widths, offsets, strict=True):
        text.append(f"PROPERTY({attribute}, {width}, {offset}, {later.get(field, -1)}) /* {field} */")
    PROPERTIES.write_text("\n".join([*text, ""]))


def main(words: list[str]) -> None:
    if words[:1] == ["--write"]:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(words[1] if words[1:] else temporary).resolve()
            write_constants(folder)
            write_properties(folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(words[0] if words else temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        complaints = layouts(folder) + statuses(folder)
    if complaints:
        sys.exit("\n".join(complaints))
    print(f"The layouts for {len(RUNTIMES)} CUDA runtimes and the statuses of {len(LIBRARIES)} libraries are NVIDIA's.")


if __name__ == "__main__":
    main(sys.argv[1:])
