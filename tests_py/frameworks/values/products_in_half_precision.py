"""Products in half precision, on a CPU without instructions for them, are float32's after rounding."""

import gpuconf

gpuconf.simulate("A100-40GB")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812

torch.manual_seed(0)
print(torch.ops.mkldnn._is_mkldnn_fp16_supported(), torch.ops.mkldnn._is_mkldnn_bf16_supported())
for dtype in (torch.float16, torch.bfloat16):
    a, b = torch.randn(2, 200, 300).to(dtype), torch.randn(2, 300, 100).to(dtype)
    image, weight = torch.randn(2, 8, 20, 20).to(dtype), torch.randn(8, 8, 3, 3).to(dtype)
    bias = torch.randn(100).to(dtype)
    for name, call, values in (
        ("mm", lambda x, y: x[0] @ y[0], (a, b)),
        ("bmm", torch.bmm, (a, b)),
        ("addmm", lambda c, x, y: torch.addmm(c, x[0], y[0]), (bias, a, b)),
        ("in place", lambda x, y: torch.zeros(200, 100, dtype=x.dtype, device=x.device).addmm_(x[0], y[0]), (a, b)),
        ("convolution", lambda x, w: F.conv2d(x, w, padding=1), (image, weight)),
    ):
        here = call(*(value.cuda() for value in values)).cpu()
        wide = call(*(value.float() for value in values)).to(dtype)
        print(dtype, name, here.dtype is dtype and torch.equal(here, wide))
