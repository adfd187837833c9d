"""Random sequences of configuration calls, valid and invalid, as text."""

import random

_STRANGERS = """
    PD('/physical_device:GPU:9','GPU') PD('/physical_device:GPU:0','gpu') PD('/physical_device:XPU:0','XPU')
    PD('','') LD('/device:GPU:0','GPU') LD('/physical_device:GPU:0','GPU') ('/physical_device:GPU:0','GPU') 'GPU:0'
    '/physical_device:GPU:0' None 0 1.5 b'GPU:0' [] {} () [g0] (c,) PD L(10)
""".split()
_TYPES = ("None",) * 6 + ("'GPU'",) * 6 + ("'CPU'",) * 3 + ("'gpu'", "'TPU'", "''", "1", "[]", "b'GPU'", "True")
_GROWTH = ("True",) * 8 + ("False",) * 4 + ("1", "0", "2", "-1", "'x'", "None", "1.0", "[]", "nan", "2**70")
_LIMITS = ("1", "10", "10", "7", "10.0", "10.9", "0.5", "0", "1024", "True", "2**40", "2**43", "16777217")
_BAD_LIMITS = tuple("None -1 -0.5 nan inf -inf 2**44 2**70 10**400 'x' '10' [] b'1' 1j".split())
_PRIORITIES = ("0", "-1", "-2", "-5")
_BAD_NUMBERS = ("1", "-6", "2**31", "-2**31-1", "1.5", "1.0", "'x'", "[]", "True")
_ORDINALS = ("0", "1", "2", "3", "-1")
_THREADS = ("0", "1", "2", "2", "4", "None", "None", "True", "-1", "2**31", "2**70", "'x'", "1.5", "2.0", "[]")
_SWITCH = ("True", "True", "False", "False", "None", "1", "0", "'x'", "2", "[]")
_POLICIES = tuple("'silent' 'warn' 'explicit' 'silent_for_int32' None 'x' 'SILENT' '' 1 True [] b'silent'".split())
_JIT = ("True", "False", "'autoclustering'", "'x'", "None", "1", "0", "''", "[]")
_TOGGLES = (
    "layout_optimizer", "constant_folding", "shape_optimization", "remapping", "arithmetic_optimization",
    "dependency_optimization", "loop_optimization", "function_optimization", "debug_stripper",
    "scoped_allocator_optimization", "pin_to_host_optimization", "implementation_selector", "auto_mixed_precision",
    "use_plugin_optimizers", "auto_mixed_precision_onednn_bfloat16", "auto_mixed_precision_mkl",
    "disable_model_pruning", "disable_meta_optimizer",
)  # fmt: skip
_INFO = (
    "'GPU:0'", "'GPU:1'", "'CPU:0'", "'gpu:0'", "'/gpu:0'", "''", "'/device:GPU:*'", "'GPU'", "'CPU:1'",
    "'/device:CPU'", "'/job:localhost/replica:0/task:0/device:GPU:0'", "None", "0", "LD('/device:GPU:0', 'GPU')",
    "b'GPU:0'",
)  # fmt: skip
_SCOPES = (
    "'GPU:0'",
    "'gpu'",
    "'/cpu:0'",
    "None",
    "''",
    "'/job:worker'",
    "LD('/device:GPU:1', 'GPU')",
    "3",
    "'bogus'",
    "c",
    "lambda: 0",
)

_VISIBLE_LISTS = ("'0'", "'1'", "'1,0'", "'0,1'", "''", "'-1'", "'0,0'", "'7'", "'x'", "'0,'", "' 0'", "'0, 1'", "'-9'")

_GETTERS = tuple(
    """
    config.get_soft_device_placement() debugging.get_log_device_placement()
    threading.get_intra_op_parallelism_threads() threading.get_inter_op_parallelism_threads() optimizer.get_jit()
    optimizer.get_experimental_options() experimental.get_device_policy() experimental.get_synchronous_execution()
    config.functions_run_eagerly() experimental.tensor_float_32_execution_enabled() config.list_physical_devices()
    config.get_visible_devices() scope()
""".split()
)


class Calls:
    """Draws calls for a machine with this number of GPUs."""

    def __init__(self, random: random.Random, gpus: int) -> None:
        self.random = random
        self.gpus = gpus
        self.known = ["c", *(f"g{i}" for i in range(gpus))]
        self.kinds = [
            (self.set_visible, 10), (self.show, 6), (self.set_growth, 10), (self.set_all_growth, 6),
            (self.set_logical, 14), (self.getter, 16), (self.get_device, 12), (self.initialize, 3),
            (self.set_switch, 12), (self.info, 2), (self.scope, 3), (self.keep, 1),
        ]  # fmt: skip
        leave_alone = (self.initialize, self.info, self.scope, self.keep)
        self.settings = [(kind, weight) for kind, weight in self.kinds if kind not in leave_alone]
        self.weights = [weight for _, weight in self.kinds]

    def sequence(self) -> list[str]:
        """A sequence that ends with the runtime initialized, if possible, and with the resulting devices."""
        if self.gpus and self.random.random() < 0.06:
            return self.after_session()
        calls: list[str] = [self.start()] if self.random.random() < 0.12 else []
        for kind, _ in self.random.choices(self.kinds, self.weights, k=self.random.randint(3, 30)):
            calls.extend(kind().split("; "))
        return [*calls, "facts()", "config.list_logical_devices()", "config.get_visible_devices()"]

    def after_session(self) -> list[str]:
        """Settings after a session. None of these calls initializes the runtime."""
        calls = [self.session(), "config.list_physical_devices()"]
        for kind, _ in self.random.choices(
            self.settings, [weight for _, weight in self.settings], k=self.random.randint(3, 12)
        ):
            calls.extend(kind().split("; "))
        return [*calls, "config.get_soft_device_placement()", "config.get_visible_devices()"]

    def session(self) -> str:
        """A session, with or without GPU options."""
        few = {
            "allow_growth": ("True", "True", "False"),
            "visible_device_list": ("'0'", "'1'", "'1,0'", "'0,1'"),
            "per_process_gpu_memory_fraction": ("0.5",),
            "experimental": ("v1.GPUOptions.Experimental(virtual_devices=[{'memory_limit_mb': [10, 10]}])",),
        }
        named = self.random.sample(sorted(few), self.random.choice([0, 1, 1, 1, 2]))
        options = ", ".join(f"{name}={self.pick(*few[name])}" for name in named)
        return f"session(v1.ConfigProto(gpu_options=v1.GPUOptions({options})))" if options else "session()"

    def start(self) -> str:
        """The ConfigProto that a program of TensorFlow 1 starts with."""
        count = self.pick(
            "", "", "'CPU': 2", "'CPU': 0", "'CPU': 1", "'GPU': 0", "'GPU': 1", "'GPU': 2", "'CPU': 3, 'GPU': 1"
        )
        fields = [f"device_count={{{count}}}"] if count else []
        options = [f"allow_growth={self.pick('True', 'False')}"] if self.random.random() < 0.4 else []
        if self.random.random() < 0.5:
            options.append(f"visible_device_list={self.pick(*_VISIBLE_LISTS)}")
        if self.random.random() < 0.15:
            options.append("per_process_gpu_memory_fraction=0.5")
        if options:
            fields.append(f"gpu_options=v1.GPUOptions({', '.join(options)})")
        for switch in ("allow_soft_placement", "log_device_placement"):
            if self.random.random() < 0.2:
                fields.append(f"{switch}={self.pick('True', 'False')}")
        if self.random.random() < 0.2:
            fields.append(f"{self.pick('intra', 'inter')}_op_parallelism_threads={self.pick('0', '2')}")
        return f"start(v1.ConfigProto({', '.join(fields)}))"

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def api(self) -> str:
        """The module of functions that have two names."""
        return self.pick("config", "config", "experimental", "v1.config", "v1.config.experimental")

    def device(self, stranger: float = 0.12) -> str:
        return (
            self.pick(*_STRANGERS)
            if self.random.random() < stranger
            else self.pick(*self.known, "c", "g0", *self.known)
        )

    def devices(self) -> str:
        """An argument for set_visible_devices."""
        if self.random.random() < 0.15:
            return self.device(0.4)
        few = [self.device(0.04) for _ in range(self.random.randint(0, 4))]
        return f"[{', '.join(few)}]" if self.random.random() < 0.93 else f"({''.join(one + ', ' for one in few)})"

    def set_visible(self) -> str:
        return f"{self.api()}.set_visible_devices({self.devices()}, {self.pick(*_TYPES)})"

    def show(self) -> str:
        """The usual call, so that many sequences are initialized."""
        shown = [g for g in self.known[1:] if self.random.random() < 0.7]
        if self.random.random() < 0.3:
            self.random.shuffle(shown)
        return f"config.set_visible_devices([{', '.join(shown)}], 'GPU')"

    def set_growth(self) -> str:
        return f"experimental.set_memory_growth({self.device()}, {self.pick(*_GROWTH)})"

    def set_all_growth(self) -> str:
        value = self.pick("True", "True", "False", "1")
        return (
            "; ".join(f"experimental.set_memory_growth({g}, {value})" for g in self.known[1:])
            or "config.list_physical_devices('GPU')"
        )

    def configuration(self, cpu: bool) -> str:
        """A list of configurations, usually one that the device accepts."""
        if self.random.random() < 0.05:
            return self.pick(
                "None",
                "L(10)",
                "'x'",
                "5",
                "{}",
                "[None]",
                "[5]",
                "(L(10) for _ in range(2))",
                "L",
                "[L]",
                "''",
                "{L(10)}",
            )
        kind = self.random.choice(["plain"] * 5 + ["priorities", "ordinals", "priorities", "ordinals", "any"])
        one = {
            "plain": lambda: "L()" if cpu else f"L({self.pick(*_LIMITS)})",
            "priorities": lambda: f"L({self.pick(*_LIMITS)}, {self.pick(*_PRIORITIES)})",
            "ordinals": lambda: f"L({self.pick(*_LIMITS)}, None, {self.pick(*_ORDINALS)})",
            "any": lambda: (
                f"L({self.pick(*_LIMITS, *_BAD_LIMITS)}, {self.pick('None', *_PRIORITIES, *_BAD_NUMBERS)}, "
                f"{self.pick('None', *_ORDINALS, *_BAD_NUMBERS)})"
            ),
        }[kind]
        few = [one() for _ in range(self.random.choice([0, 1, 1, 2, 2, 3]))]
        if self.random.random() < 0.03:
            few.append(f"L({self.pick(*_LIMITS, *_BAD_LIMITS)})")
        return f"[{', '.join(few)}]" if self.random.random() < 0.9 else f"({''.join(one + ', ' for one in few)})"

    def set_logical(self) -> str:
        device = self.device()
        cpu = device == "c" and self.random.random() < 0.8
        function, value = self.pick("logical_device", "logical_device", "virtual_device"), self.configuration(cpu)
        if function == "logical_device":
            return f"config.set_logical_device_configuration({device}, {value})"
        return f"experimental.set_virtual_device_configuration({device}, {value})"

    def getter(self) -> str:
        return self.pick(*_GETTERS)

    def get_device(self) -> str:
        device, kind = self.device(), self.pick(*_TYPES)
        return self.pick(
            f"experimental.get_memory_growth({device})",
            f"config.get_logical_device_configuration({device})",
            f"experimental.get_virtual_device_configuration({device})",
            f"experimental.get_device_details({device})",
            f"{self.api()}.list_physical_devices({kind})",
            f"{self.api()}.get_visible_devices({kind})",
        )

    def initialize(self) -> str:
        return f"{self.api()}.list_logical_devices({self.pick(*_TYPES)})"

    def info(self) -> str:
        function = self.pick("get_memory_info", "get_memory_info", "get_memory_usage", "reset_memory_stats")
        return f"experimental.{function}({self.pick(*_INFO)})"

    def scope(self) -> str:
        return self.pick(
            f"enter({self.pick(*_SCOPES)})", "leave()", "leave(0)", f"device({self.pick(*_SCOPES)}) and None"
        )

    def keep(self) -> str:
        """A list that its owner changes later."""
        device, change = self.pick("g0", "g0", "c"), self.pick("append(L(20))", "clear()", "append(L())")
        return f"config.set_logical_device_configuration({device}, keep(0, [L(10)])); kept(0).{change}"

    def set_switch(self) -> str:
        options = {f"{self.pick(*_TOGGLES)!r}: {self.pick(*_SWITCH)}" for _ in range(self.random.randint(0, 3))}
        nodes = self.pick(
            "'min_graph_nodes': 3",
            "'min_graph_nodes': -1",
            "'min_graph_nodes': 0",
            "'unheard_of': True",
            "'min_graph_nodes': 'x'",
        )
        return self.pick(
            f"config.set_soft_device_placement({self.pick(*_SWITCH)})",
            f"debugging.set_log_device_placement({self.pick(*_SWITCH)})",
            f"threading.set_intra_op_parallelism_threads({self.pick(*_THREADS)})",
            f"threading.set_inter_op_parallelism_threads({self.pick(*_THREADS)})",
            f"experimental.set_device_policy({self.pick(*_POLICIES)})",
            f"experimental.set_synchronous_execution({self.pick(*_SWITCH)})",
            f"optimizer.set_jit({self.pick(*_JIT)})",
            f"optimizer.set_experimental_options({{{', '.join(sorted(options))}}})",
            f"optimizer.set_experimental_options({self.pick('{' + nodes + '}', 'None', '[]', '3', '[(1, 2)]')})",
            f"config.run_functions_eagerly({self.pick(*_SWITCH)})",
            f"experimental.enable_tensor_float_32_execution({self.pick('True', 'False')})",
        )
