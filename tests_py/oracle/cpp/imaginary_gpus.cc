// Imaginary GPUs for a TensorFlow that was built without GPU support: a device factory of the type "GPU", whose devices
// compute in host memory. Everything else, from Python to the placer, is TensorFlow's own.
//
// The checks of native device creation, and how it numbers and sizes logical GPUs, are reimplemented here (TensorFlow's
// CPU wheel has none of that code). So are the operations with GPU kernels, beside those that TensorFlow registers for
// any device. The comparison concerns where they run, not what they compute: they return zeros.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/device_factory.h"
#include "tensorflow/core/common_runtime/local_device.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/session_options.h"

namespace {

using namespace tensorflow; // NOLINT: this file is one page

struct Card {
	std::string product;
	int major, minor;
	int64_t bytes;
	int greatest_priority;
};

struct Made {
	int32_t card, priority;
	int64_t limit;
	bool growth;
};

std::vector<Card> cards;
bool obey = false;      // whether CUDA_VISIBLE_DEVICES counts
bool hidden = false;    // whether HideCards has read it
std::vector<Made> made; // by the last successful creation

// CUDA reads CUDA_VISIBLE_DEVICES when it is first used: positions, as far as they name GPUs. One that comes twice
// hides all.
void HideCards() {
	if (!obey || hidden)
		return;
	hidden = true;
	const char *list = std::getenv("CUDA_VISIBLE_DEVICES");
	if (list == nullptr)
		return;
	std::vector<Card> seen;
	std::vector<int> positions;
	for (const std::string &entry : str_util::Split(list, ',')) {
		int32_t position;
		if (!strings::safe_strto32(entry, &position) || position < 0 || position >= static_cast<int>(cards.size()))
			break;
		if (std::count(positions.begin(), positions.end(), position) > 0) {
			seen.clear();
			break;
		}
		positions.push_back(position);
		seen.push_back(cards[position]);
	}
	cards = std::move(seen);
}

// Copies to and from a GPU's memory: host memory to host memory.
class CopyingContext : public DeviceContext {
  public:
	void CopyCPUTensorToDevice(const Tensor *from, Device *, Tensor *to, StatusCallback done, bool) const override {
		done(Copy(*from, to));
	}
	void CopyDeviceTensorToCPU(
	    const Tensor *from, absl::string_view, Device *, Tensor *to, StatusCallback done) override {
		done(Copy(*from, to));
	}
	void CopyTensorInSameDevice(const Tensor *from, Device *, Tensor *to, StatusCallback done) const override {
		done(Copy(*from, to));
	}

  private:
	static absl::Status Copy(const Tensor &from, Tensor *to) {
		if (from.TotalBytes() > 0)
			std::memcpy(to->data(), from.data(), from.TotalBytes());
		return absl::OkStatus();
	}

	// TensorFlow uses the context of a "GPU" as a GPUDeviceContext when it copies from one GPU to another, and looks
	// for a stream in it. It finds none here, and reports "No gpu stream is available".
	[[maybe_unused]] const void *const no_stream_[32] = {};
};

// Host memory that counts as a GPU's, with statistics, which are always zero here.
class CountingAllocator : public AllocatorWrapper {
  public:
	CountingAllocator() : AllocatorWrapper(cpu_allocator()) {}
	std::optional<AllocatorStats> GetStats() override { return AllocatorStats(); }
	bool ClearStats() override { return true; }
};

Allocator *gpu_allocator() {
	static CountingAllocator *allocator = new CountingAllocator;
	return allocator;
}

// As TensorFlow describes a GPU without a known NUMA node and without peers.
DeviceLocality Locality() {
	DeviceLocality locality;
	locality.set_bus_id(1);
	locality.mutable_links();
	return locality;
}

class ImaginaryGpu : public LocalDevice {
  public:
	ImaginaryGpu(const SessionOptions &options, const std::string &name, int64_t limit, const std::string &description)
	    : LocalDevice(options, Device::BuildDeviceAttributes(name, DEVICE_GPU, Bytes(limit), Locality(), description)),
	      context_(new CopyingContext) {
		info_.default_context = context_.get();
		set_tensorflow_accelerator_device_info(&info_);
	}

	Allocator *GetAllocator(AllocatorAttributes attributes) override {
		return attributes.on_host() ? cpu_allocator() : gpu_allocator();
	}
	absl::Status Sync() override { return absl::OkStatus(); }

	absl::Status TryGetDeviceContext(DeviceContext **context) override {
		context_->Ref();
		*context = context_.get();
		return absl::OkStatus();
	}

	absl::Status MakeTensorFromProto(const TensorProto &proto, const AllocatorAttributes, Tensor *tensor) override {
		if (!tensor->FromProto(gpu_allocator(), proto))
			return absl::InvalidArgumentError(absl::StrCat("a tensor that cannot be parsed"));
		return absl::OkStatus();
	}

	void CopyTensorInSameDevice(
	    const Tensor *from, Tensor *to, const DeviceContext *context, StatusCallback done) override {
		context->CopyTensorInSameDevice(from, this, to, std::move(done));
	}

  private:
	core::RefCountPtr<CopyingContext> context_;
	AcceleratorDeviceInfo info_;
};

// The limit of a GPU without explicit limits: all of its memory except a reserve.
int64_t DefaultLimit(const Card &card) {
	const int64_t mib = int64_t{1} << 20;
	int64_t reserve = 225 * mib;
	if (card.bytes >= int64_t{1} << 31) {
		reserve = (card.major <= 6 ? 500 : card.major == 7 ? 1050 : card.major == 8 ? 1536 : 1800) * mib;
	}
	return reserve < card.bytes ? card.bytes - reserve : card.bytes;
}

class Factory : public DeviceFactory {
  public:
	absl::Status ListPhysicalDevices(std::vector<std::string> *devices) override {
		HideCards();
		for (size_t i = 0; i < cards.size(); ++i)
			devices->push_back(absl::StrCat("/physical_device:GPU:", i));
		return absl::OkStatus();
	}

	absl::Status GetDeviceDetails(int index, std::unordered_map<std::string, std::string> *details) override {
		const Card &card = cards.at(index);
		(*details)["device_name"] = card.product;
		(*details)["compute_capability"] = absl::StrCat(card.major, ".", card.minor);
		return absl::OkStatus();
	}

	absl::Status CreateDevices(const SessionOptions &options, const std::string &prefix,
	    std::vector<std::unique_ptr<Device>> *devices) override {
		HideCards();
		std::vector<Made> plan;
		TF_RETURN_IF_ERROR(Plan(options.config, &plan));
		for (size_t i = 0; i < plan.size(); ++i) {
			const Card &card = cards[plan[i].card];
			const std::string description = absl::StrCat("device: ", plan[i].card, ", name: ", card.product,
			    ", pci bus id: 0000:00:00.0", ", compute capability: ", card.major, ".", card.minor);
			devices->push_back(std::make_unique<ImaginaryGpu>(
			    options, absl::StrCat(prefix, "/device:GPU:", i), plan[i].limit, description));
		}
		made = std::move(plan);
		return absl::OkStatus();
	}

  private:
	using Virtual = GPUOptions::Experimental::VirtualDevices;

	static absl::Status Plan(const ConfigProto &config, std::vector<Made> *plan) {
		const GPUOptions &gpu = config.gpu_options();
		const auto &virtuals = gpu.experimental().virtual_devices();
		size_t wanted = cards.size();
		auto count = config.device_count().find("GPU");
		if (count != config.device_count().end())
			wanted = static_cast<size_t>(std::max(0, count->second));
		std::vector<int> visible;
		if (wanted > 0)
			TF_RETURN_IF_ERROR(ParseVisible(gpu.visible_device_list(), &visible));
		const size_t use = std::min(wanted, visible.size());
		if (!virtuals.empty())
			TF_RETURN_IF_ERROR(Verify(gpu, virtuals, visible, wanted));

		std::vector<std::pair<int, Made>> numbered;
		for (size_t i = 0; i < use; ++i) {
			const Card &card = cards[visible[i]];
			const Virtual *entries = static_cast<int>(i) < virtuals.size() ? &virtuals[i] : nullptr;
			if (entries == nullptr || entries->memory_limit_mb_size() == 0) {
				const double fraction = gpu.per_process_gpu_memory_fraction();
				const int64_t limit = fraction > 0 ? static_cast<int64_t>(card.bytes * fraction) : DefaultLimit(card);
				numbered.push_back({0, {visible[i], 0, limit, gpu.allow_growth()}});
				continue;
			}
			for (int k = 0; k < entries->memory_limit_mb_size(); ++k) {
				const int priority = k < entries->priority_size() ? entries->priority(k) : 0;
				const int ordinal = k < entries->device_ordinal_size() ? entries->device_ordinal(k) : 0;
				const int64_t limit = static_cast<int64_t>(entries->memory_limit_mb(k)) << 20;
				numbered.push_back({ordinal, {visible[i], priority, limit, gpu.allow_growth()}});
			}
		}
		std::stable_sort(
		    numbered.begin(), numbered.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
		for (const auto &entry : numbered)
			plan->push_back(entry.second);
		return absl::OkStatus();
	}

	static absl::Status ParseVisible(const std::string &list, std::vector<int> *visible) {
		if (list.empty()) {
			for (size_t i = 0; i < cards.size(); ++i)
				visible->push_back(i);
			return absl::OkStatus();
		}
		for (const std::string &entry : str_util::Split(list, ',')) {
			int32_t id;
			if (!strings::safe_strto32(entry, &id)) {
				return absl::InvalidArgumentError(
				    absl::StrCat("Could not parse entry in 'visible_device_list': '", entry, "'."));
			}
			if (id < 0 || id >= static_cast<int>(cards.size())) {
				return absl::InvalidArgumentError(absl::StrCat("'visible_device_list' listed an invalid Device id '",
				    id, "' but visible device count is ", cards.size()));
			}
			if (std::count(visible->begin(), visible->end(), id) > 0) {
				return absl::InvalidArgumentError(
				    absl::StrCat("visible_device_list contained a duplicate entry: ", list));
			}
			visible->push_back(id);
		}
		return absl::OkStatus();
	}

	template <typename Virtuals>
	static absl::Status Verify(
	    const GPUOptions &gpu, const Virtuals &virtuals, const std::vector<int> &visible, size_t wanted) {
		const size_t size = virtuals.size();
		if (gpu.per_process_gpu_memory_fraction() > 0) {
			return absl::InvalidArgumentError(
			    absl::StrCat("It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set."));
		}
		if (wanted < size) {
			return absl::UnknownError(absl::StrCat(
			    "Not enough GPUs to create virtual devices. num_gpus_to_use: ", wanted, " #virtual_devices: ", size));
		}
		if (!gpu.visible_device_list().empty() && visible.size() != size) {
			return absl::InvalidArgumentError(
			    absl::StrCat("The number of GPUs in visible_device_list doesn't match the number of elements in the "
			                 "virtual_devices list. #GPUs in "
			                 "visible_device_list: ",
			        visible.size(), " virtual_devices.size(): ", size));
		}
		if (visible.size() != size) {
			return absl::UnknownError(absl::StrCat("The number of valid GPUs doesn't match the number of elements in "
			                                       "the virtual_devices list. #valid GPUs: ",
			    visible.size(), " virtual_devices.size(): ", size));
		}
		const bool ordinals = !virtuals[0].device_ordinal().empty();
		for (size_t i = 0; i < size; ++i) {
			const Virtual &entries = virtuals[i];
			if (ordinals != !entries.device_ordinal().empty()) {
				return absl::InvalidArgumentError(absl::StrCat("Device ordinals must be set for all virtual devices or "
				                                               "none. But the device_ordinal is specified for ",
				    i, " while previous devices didn't have any set."));
			}
			if (ordinals && entries.memory_limit_mb_size() != entries.device_ordinal_size()) {
				return absl::InvalidArgumentError(
				    absl::StrCat("Number of virtual device ordinals specified doesn't match with number of "
				                 "memory_limit_mb specified for GPU# ",
				        i, " memory_limit_mb size: ", entries.memory_limit_mb_size(),
				        " and device_ordinal size: ", entries.device_ordinal_size()));
			}
		}
		const bool priorities = !virtuals[0].priority().empty();
		for (size_t i = 0; i < size; ++i) {
			const Virtual &entries = virtuals[i];
			if (!priorities && !entries.priority().empty()) {
				return absl::InvalidArgumentError(absl::StrCat(
				    "Priority must be set for all virtual devices or none. But the priority is specified for ", i,
				    " while previous devices didn't have any set."));
			}
			if (priorities && entries.memory_limit_mb_size() != entries.priority_size()) {
				return absl::InvalidArgumentError(
				    absl::StrCat("Number of virtual device priorities specified doesn't match with number of "
				                 "memory_limit_mb specified for GPU# ",
				        i, " memory_limit_mb size: ", entries.memory_limit_mb_size(),
				        " and priority size: ", entries.priority_size()));
			}
			for (const int priority : entries.priority()) {
				const int greatest = cards[visible[i]].greatest_priority;
				if (priority > 0 || priority < greatest) {
					return absl::InvalidArgumentError(
					    absl::StrCat("Priority ", priority, " is outside the range of supported priorities [", greatest,
					        ",0] for virtual device ", i, " on GPU# ", visible[i]));
				}
			}
		}
		return absl::OkStatus();
	}
};

REGISTER_LOCAL_DEVICE_FACTORY("GPU", Factory, 210);

class Zeros : public OpKernel {
  public:
	using OpKernel::OpKernel;

	void Compute(OpKernelContext *context) override {
		Tensor *output = nullptr;
		OP_REQUIRES_OK(context, context->allocate_output(0, OutputShape(context), &output));
		if (output->TotalBytes() > 0)
			std::memset(output->data(), 0, output->TotalBytes());
	}

  private:
	virtual TensorShape OutputShape(OpKernelContext *context) { return context->input(0).shape(); }
};

class MatMulZeros : public Zeros {
  public:
	explicit MatMulZeros(OpKernelConstruction *construction) : Zeros(construction) {
		OP_REQUIRES_OK(construction, construction->GetAttr("transpose_a", &transpose_a_));
		OP_REQUIRES_OK(construction, construction->GetAttr("transpose_b", &transpose_b_));
	}

  private:
	TensorShape OutputShape(OpKernelContext *context) override {
		return TensorShape(
		    {context->input(0).dim_size(transpose_a_ ? 1 : 0), context->input(1).dim_size(transpose_b_ ? 0 : 1)});
	}

	bool transpose_a_ = false, transpose_b_ = false;
};

#define ORACLE_KERNELS(T) \
	REGISTER_KERNEL_BUILDER(Name("MatMul").Device(DEVICE_GPU).TypeConstraint<T>("T"), MatMulZeros); \
	REGISTER_KERNEL_BUILDER(Name("Add").Device(DEVICE_GPU).TypeConstraint<T>("T"), Zeros); \
	REGISTER_KERNEL_BUILDER(Name("AddV2").Device(DEVICE_GPU).TypeConstraint<T>("T"), Zeros); \
	REGISTER_KERNEL_BUILDER(Name("AddN").Device(DEVICE_GPU).TypeConstraint<T>("T"), Zeros)
ORACLE_KERNELS(float);
ORACLE_KERNELS(double);

} // namespace

extern "C" {

// The cards that the next enumeration finds.
void oracle_clear_cards() {
	cards.clear();
	hidden = false;
	made.clear();
}

// Let CUDA_VISIBLE_DEVICES count, as it does for CUDA.
void oracle_obey_visible_devices() { obey = true; }

void oracle_add_card(const char *product, int major, int minor, int64_t bytes, int greatest_priority) {
	cards.push_back({product, major, minor, bytes, greatest_priority});
}

// The devices of the last creation, logical GPU by logical GPU.
int oracle_made() { return static_cast<int>(made.size()); }
int oracle_made_card(int i) { return made.at(i).card; }
int oracle_made_priority(int i) { return made.at(i).priority; }
int64_t oracle_made_limit(int i) { return made.at(i).limit; }
int oracle_made_growth(int i) { return made.at(i).growth; }

} // extern "C"
