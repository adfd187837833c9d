/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's recurrent networks: where each weight is in the weight space, and how large that and the others are.
 *
 * The space has the matrices of each layer and direction (of the input's gates, of the recurrent ones, of a
 * projection), and then the biases in the same order. Nothing is padded: cuDNN's documentation gives the shapes, and
 * PyTorch checks that the gates of a matrix are adjacent.
 */
#include "cudnn.h"

#include <stdlib.h>
#include <string.h>

enum {
	LSTM = 2,
	GRU = 3,
	NO_BIAS = 0,
	INPUT_BIAS = 1,
	TWO_BIASES = 2,
	RECURRENT_BIAS = 3,
	SKIPPED_INPUT = 1,
	TRAINING = 1
};

struct rnn {
	int mode, bias, directions, skips_input, type, input, hidden, projection, layers, drops;
};

struct sequences {
	int type, layout, most, batch, vector;
	int64_t steps; /* of all sequences */
};

CUDNN_OBJECT(RNNDescriptor, sizeof(struct rnn))
CUDNN_OBJECT(RNNDataDescriptor, sizeof(struct sequences))

EXPORT int cudnnSetRNNDescriptor_v8(struct rnn *rnn, int algorithm, int mode, int bias, int direction, int input_mode,
    int type, int precision, int math, int input, int hidden, int projection, int layers, const int *dropout,
    unsigned flags) {
	(void)algorithm, (void)precision, (void)math, (void)flags;
	NEED(rnn, CUDNN_NULL_POINTER);
	if (mode < 0 || mode > GRU || input <= 0 || hidden <= 0 || layers <= 0 || projection < 0 || projection > hidden)
		return CUDNN_BAD_PARAM;
	if (projection == 0)
		projection = hidden;
	*rnn = (struct rnn){mode, bias, 1 + (direction == 1), input_mode == SKIPPED_INPUT, type, input, hidden, projection,
	    layers, dropout != NULL && *dropout};
	return SUCCESS;
}

EXPORT int cudnnSetRNNDataDescriptor(struct sequences *data, int type, int layout, int most, int batch, int vector,
    const int *lengths, const void *filling) {
	(void)filling;
	NEED(data && lengths, CUDNN_NULL_POINTER);
	if (most <= 0 || batch <= 0 || vector <= 0)
		return CUDNN_BAD_PARAM;
	*data = (struct sequences){type, layout, most, batch, vector, 0};
	for (int i = 0; i < batch; i++)
		data->steps += lengths[i];
	return SUCCESS;
}

/* What differs by cudnnRNNMode_t: the matrices of a cell, and what the workspace and the reserve space have of it. */
static const struct {
	int gates, states, kept;
} modes[] = {{1, 3, 1}, {1, 3, 1}, [LSTM] = {4, 10, 5}, [GRU] = {3, 5, 6}};

static int gates(const struct rnn *rnn) { return modes[rnn->mode].gates; }

/* How many of the input's and the recurrent matrices have one (cudnnRNNBiasMode_t). */
static int biases(const struct rnn *rnn) {
	if (rnn->bias == NO_BIAS)
		return 0;
	return rnn->bias == TWO_BIASES ? 2 : 1;
}

/* The columns of an input's matrix; 0 where the input is not multiplied. */
static int64_t columns(const struct rnn *rnn, int pseudo) {
	if (pseudo < rnn->directions)
		return rnn->skips_input ? 0 : rnn->input;
	return (int64_t)rnn->projection * rnn->directions;
}

/* Elements of a layer's matrices in one direction. */
static int64_t matrices(const struct rnn *rnn, int pseudo) {
	int64_t projected = rnn->projection < rnn->hidden ? (int64_t)rnn->projection * rnn->hidden : 0;
	return gates(rnn) * rnn->hidden * (columns(rnn, pseudo) + rnn->projection) + projected;
}

/* The elements before a layer's matrices, or all for the number of layers and directions. */
static int64_t before(const struct rnn *rnn, int pseudo) {
	int64_t sum = 0;
	for (int i = 0; i < pseudo; i++)
		sum += matrices(rnn, i);
	return sum;
}

EXPORT int cudnnGetRNNWeightSpaceSize(const void *handle, const struct rnn *rnn, size_t *bytes) {
	NEED(handle && rnn && bytes, CUDNN_NULL_POINTER);
	int pseudos = rnn->layers * rnn->directions;
	*bytes = cudnn_element(rnn->type) *
	         (size_t)(before(rnn, pseudos) + (int64_t)pseudos * biases(rnn) * gates(rnn) * rnn->hidden);
	return SUCCESS;
}

/* Elements from the begin of the space to a part of it; no rows: there is no such part. */
struct part {
	int64_t at, rows, columns;
};

/* By cuDNN's number of a linear layer: the input's gates, the recurrent ones, and for an LSTM the projection as the
 * ninth. */
static struct part matrix(const struct rnn *rnn, int pseudo, int linear) {
	int64_t at = before(rnn, pseudo), each = columns(rnn, pseudo) * rnn->hidden,
	        again = (int64_t)rnn->projection * rnn->hidden;
	int many = gates(rnn);
	if (linear < many)
		return (struct part){at + linear * each, each > 0 ? rnn->hidden : 0, columns(rnn, pseudo)};
	at += many * each;
	if (linear < 2 * many)
		return (struct part){at + (linear - many) * again, rnn->hidden, rnn->projection};
	return (struct part){
	    at + many * again, linear == 8 && rnn->projection < rnn->hidden ? rnn->projection : 0, rnn->hidden};
}

/* In the same numbers. One of the two kinds may be absent. */
static struct part bias(const struct rnn *rnn, int pseudo, int linear) {
	int many = gates(rnn), recurrent = linear >= many;
	int64_t at = before(rnn, rnn->layers * rnn->directions) + (int64_t)pseudo * biases(rnn) * many * rnn->hidden;
	if (linear >= 2 * many || rnn->bias == NO_BIAS || (rnn->bias == INPUT_BIAS && recurrent) ||
	    (rnn->bias == RECURRENT_BIAS && !recurrent))
		return (struct part){0, 0, 0};
	return (struct part){
	    at + (int64_t)(rnn->bias == RECURRENT_BIAS ? linear - many : linear) * rnn->hidden, rnn->hidden, 1};
}

/* An address of NULL and a tensor without dimensions: the part does not exist. */
static void describe(
    const struct rnn *rnn, struct part part, const char *space, struct cudnn_tensor *out, const void **address) {
	if (out != NULL)
		*out = (struct cudnn_tensor){.type = rnn->type,
		    .dimensions = part.rows > 0 ? 3 : 0,
		    .sizes = {1, (int)part.rows, (int)part.columns},
		    .strides = {(int)(part.rows * part.columns), (int)part.columns, 1}};
	if (address != NULL)
		*address = part.rows > 0 ? space + (size_t)part.at * cudnn_element(rnn->type) : NULL;
}

EXPORT int cudnnGetRNNWeightParams(const void *handle, const struct rnn *rnn, int pseudo, size_t bytes,
    const void *space, int linear, struct cudnn_tensor *matrix_out, const void **matrix_address,
    struct cudnn_tensor *bias_out, const void **bias_address) {
	size_t needed;
	NEED(handle && rnn, CUDNN_NULL_POINTER);
	cudnnGetRNNWeightSpaceSize(handle, rnn, &needed);
	if (pseudo < 0 || pseudo >= rnn->layers * rnn->directions || linear < 0 || linear > 9 || bytes < needed)
		return CUDNN_BAD_PARAM;
	describe(rnn, matrix(rnn, pseudo, linear), space, matrix_out, matrix_address);
	describe(rnn, bias(rnn, pseudo, linear), space, bias_out, bias_address);
	return SUCCESS;
}

/*
 * NVIDIA documents neither size. These are rules for what cuDNN 9.19 answered on an H200 for a grid of shapes
 * (tests_py/simulation/libraries/test_library_sizes.py has how many agree).
 *
 * The workspace has 8 MiB for the products of each layer and direction, and a copy of the weights; for each step the
 * gates, an output, in two directions four more outputs, and the input; and states for each sequence. In training an
 * RNN has the steps twice, and a GRU its input.
 */
static size_t working(const struct rnn *rnn, const struct sequences *data, int training) {
	enum { PRODUCT = 8 << 20, HEADER = 256, SEQUENCE = 8 };
	int64_t hidden = rnn->hidden, both = rnn->directions - 1, pseudos = rnn->layers * rnn->directions,
	        input = rnn->input;
	int64_t steps = (gates(rnn) + 1) * rnn->directions * hidden + 4 * both * hidden + input;
	int64_t states = modes[rnn->mode].states + 2 * both;
	if (training && gates(rnn) == 1) {
		steps += 2 * hidden + input;
		states += 2;
	}
	if (training && rnn->mode == GRU && pseudos != 2)
		steps += input;
	int64_t elements = before(rnn, (int)pseudos) + data->steps * steps + states * pseudos * data->batch * hidden;
	return (size_t)(pseudos * PRODUCT + HEADER + SEQUENCE * data->batch) + (size_t)elements * cudnn_element(rnn->type);
}

/*
 * The reserve space has, for each step, layer and direction, an RNN's output, an LSTM's four gates and cell, or six
 * vectors of a GRU; the outputs of the layers below the last; and a bit for each output that may be dropped, once for
 * each direction of the next layer.
 */
static size_t reserved(const struct rnn *rnn, int64_t steps) {
	enum { HEADER = 256 };
	int64_t kept = modes[rnn->mode].kept, wide = (int64_t)rnn->projection * rnn->directions;
	int64_t each = rnn->layers * kept * rnn->hidden + (rnn->layers - 1) * (int64_t)rnn->projection;
	int64_t masks = rnn->drops ? (rnn->layers - 1) * steps * wide * rnn->directions / 8 : 0;
	return HEADER + (size_t)(steps * rnn->directions * each) * cudnn_element(rnn->type) + (size_t)masks;
}

EXPORT int cudnnGetRNNTempSpaceSizes(const void *handle, const struct rnn *rnn, int mode, const struct sequences *data,
    size_t *workspace, size_t *reserve) {
	NEED(handle && rnn && data, CUDNN_NULL_POINTER);
	if (workspace != NULL)
		*workspace = working(rnn, data, mode == TRAINING);
	if (reserve != NULL)
		*reserve = mode == TRAINING ? reserved(rnn, data->steps) : 0;
	return SUCCESS;
}
