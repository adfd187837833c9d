/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written by benchmarks/accuracy/drawn/fit.py of the convolutions that were recorded on an H200 with cuDNN 9.19. A node is a
 * feature, the threshold up to which the next node follows, and the node that follows else; or a leaf, with its value.
 */

static const struct node narrow_first_filter_form[] = {
	{GROUP_C, 2.5, 4}, {C, 3, 3}, {LEAF, 10, 0}, {LEAF, 0, 0}, {WINDOW, 2.5, 48}, {Y_PLANE, 5, 7}, {LEAF, 0, 0}, {C, 392, 21}, {ROWS, 80.5, 12},
	{ROWS, 48.5, 11}, {LEAF, 8, 0}, {LEAF, 0, 0}, {N, 1.5, 16}, {ROWS, 4160.5, 15}, {LEAF, 8, 0}, {LEAF, 9, 0}, {Y, 22992, 20}, {X_PLANE, 147.5, 19},
	{LEAF, 8, 0}, {LEAF, 0, 0}, {LEAF, 8, 0}, {K, 140, 27}, {X_PLANE, 55, 26}, {DEPTH, 880, 25}, {LEAF, 1, 0}, {LEAF, 8, 0}, {LEAF, 8, 0},
	{Y_PLANE, 379, 45}, {ROWS, 6848, 44}, {K_REST, 1, 43}, {TILES_128, 45.5, 42}, {ROWS, 1460, 41}, {K, 204, 36}, {W, 123264, 35}, {LEAF, 8, 0},
	{LEAF, 1, 0}, {C, 864, 40}, {Y_PLANE, 82.5, 39}, {LEAF, 1, 0}, {LEAF, 8, 0}, {LEAF, 8, 0}, {LEAF, 1, 0}, {LEAF, 1, 0}, {LEAF, 10, 0}, {LEAF, 10, 0},
	{ROWS, 9144, 47}, {LEAF, 8, 0}, {LEAF, 8, 0}, {ROWS, 4964, 54}, {TILES_128, 9.5, 53}, {TILES_64, 34, 52}, {LEAF, 2, 0}, {LEAF, 10, 0}, {LEAF, 2, 0},
	{TILES_64, 1.5, 56}, {LEAF, 9, 0}, {ROWS, 18192, 60}, {TILES_64, 33, 59}, {LEAF, 10, 0}, {LEAF, 2, 0}, {TILES_64, 306, 62}, {LEAF, 10, 0},
	{LEAF, 2, 0}
};
static const struct node narrow_first_filter_s[] = {
	{ROWS, 12672, 28}, {Y_PLANE, 652, 15}, {ROWS, 104, 4}, {LEAF, -0.7332, 0}, {TILES_64, 456, 12}, {ROWS, 334.5, 7}, {LEAF, 2.0, 0}, {ROWS, 6016, 11},
	{WINDOW, 5, 10}, {LEAF, 2.4735, 0}, {LEAF, 3.4594, 0}, {LEAF, 3.7771, 0}, {ROWS, 4128, 14}, {LEAF, -0.3972, 0}, {LEAF, 2.1612, 0}, {C, 51.5, 21},
	{N, 2.5, 20}, {K, 84, 19}, {LEAF, 6.3935, 0}, {LEAF, 3.1144, 0}, {LEAF, 8.4768, 0}, {W, 4488, 23}, {LEAF, 1.7805, 0}, {X, 417792, 27}, {K, 84, 26},
	{LEAF, 3.8074, 0}, {LEAF, 2.5, 0}, {LEAF, 5.2519, 0}, {ROWS, 43904, 36}, {W, 25792, 35}, {TILES_64, 1.5, 34}, {X, 650240, 33}, {LEAF, 9.5346, 0},
	{LEAF, 10.2935, 0}, {LEAF, 8.5629, 0}, {LEAF, 5.9069, 0}, {ROWS, 246456, 44}, {DEPTH, 60, 43}, {Y_PLANE, 9184, 40}, {LEAF, 14.6014, 0},
	{ROWS, 61952, 42}, {LEAF, 11.2281, 0}, {LEAF, 11.8106, 0}, {LEAF, 9.7882, 0}, {X, 4328496, 46}, {LEAF, 13.0034, 0}, {LEAF, 14.9321, 0}
};
static const struct node narrow_first_filter_xyws[] = {
	{TILES_128, 4.5, 24}, {C, 26, 13}, {W, 177, 4}, {LEAF, 11.1518, 0}, {Y, 5464064, 10}, {Y_PLANE, 930, 7}, {LEAF, 4.5236, 0}, {W, 6708, 9},
	{LEAF, 7.017, 0}, {LEAF, 5.9387, 0}, {DEPTH, 181.5, 12}, {LEAF, 8.3459, 0}, {LEAF, 6.9069, 0}, {ROWS, 1584, 17}, {X, 71424, 16}, {LEAF, -4.8962, 0},
	{LEAF, -0.0437, 0}, {DEPTH, 13.5, 19}, {LEAF, 7.626, 0}, {ROWS, 93040, 23}, {GROUPS, 112, 22}, {LEAF, 4.6117, 0}, {LEAF, 3.0699, 0},
	{LEAF, 5.8074, 0}, {TILES_128, 37.5, 40}, {ROWS, 1374.5, 31}, {K, 494, 30}, {GROUP_C, 402, 29}, {LEAF, 2.8219, 0}, {LEAF, -4.9041, 0},
	{LEAF, -11.2455, 0}, {K, 158, 33}, {LEAF, 3.7007, 0}, {K_REST, 1.5, 39}, {GROUP_C, 648, 38}, {TILES_64, 16.5, 37}, {LEAF, 4.6375, 0},
	{LEAF, 2.585, 0}, {LEAF, 1.0431, 0}, {LEAF, -7.2094, 0}, {X, 1388544, 42}, {LEAF, -9.585, 0}, {DEPTH, 2976, 46}, {C, 1232, 45}, {LEAF, -0.2628, 0},
	{LEAF, -1.3387, 0}, {LEAF, -2.8681, 0}
};
static const struct node narrow_first_filter_xys[] = {
	{GROUP_C, 36, 6}, {ROWS, 43520, 5}, {N, 5.5, 4}, {LEAF, 6.2479, 0}, {LEAF, 6.3837, 0}, {LEAF, 7.7814, 0}, {K, 336, 18}, {Y, 81216, 9},
	{LEAF, 3.585, 0}, {W, 25024, 17}, {N, 5, 14}, {TILES_128, 1.5, 13}, {LEAF, 5.2047, 0}, {LEAF, 3.661, 0}, {X, 1047168, 16}, {LEAF, 4.2479, 0},
	{LEAF, 4.3923, 0}, {LEAF, 3.3219, 0}, {TILES_128, 12.5, 20}, {LEAF, 1.9534, 0}, {LEAF, 2.161, 0}
};
static const struct node narrow_first_largest_forward[] = {
	{GROUP_C, 1.5, 12}, {IS_HALF, 0.5, 3}, {LEAF, -6.0, 0}, {Y, 382592, 9}, {K, 787, 8}, {X, 39984, 7}, {LEAF, 1.5801, 0}, {LEAF, -6.0, 0},
	{LEAF, 1.527, 0}, {K, 38, 11}, {LEAF, -6.0, 0}, {LEAF, 1.9944, 0}, {ROWS, 59, 28}, {GROUP_C, 272, 23}, {C_REST, 3.5, 22}, {Y_PLANE, 5, 19},
	{Y, 720, 18}, {LEAF, -1.3378, 0}, {LEAF, -4.3219, 0}, {Y_PLANE, 12.5, 21}, {LEAF, 1.8307, 0}, {LEAF, 0.4832, 0}, {LEAF, 2.8267, 0},
	{X_PLANE, 8.5, 27}, {DEPTH, 624, 26}, {LEAF, 3.57, 0}, {LEAF, 5.4151, 0}, {LEAF, 2.8082, 0}, {X_PLANE, 5, 30}, {LEAF, -5.5437, 0}, {ROWS, 291, 40},
	{N, 1.5, 35}, {X_PLANE, 226, 34}, {LEAF, 1.6267, 0}, {LEAF, 1.0004, 0}, {DEPTH, 1088, 37}, {LEAF, 0.0674, 0}, {X, 387072, 39}, {LEAF, 1.841, 0},
	{LEAF, 0.1772, 0}, {C, 14, 44}, {Y, 1594560, 43}, {LEAF, 0.2643, 0}, {LEAF, 0.7625, 0}, {DEPTH, 4164, 46}, {LEAF, 0.0002, 0}, {LEAF, 1.1149, 0}
};
static const struct node narrow_first_largest_data[] = {
	{GROUP_C, 1.5, 14}, {IS_HALF, 0.5, 3}, {LEAF, -6.0, 0}, {Y, 382592, 9}, {K, 787, 8}, {X, 39984, 7}, {LEAF, 1.5815, 0}, {LEAF, -6.0, 0},
	{LEAF, 1.5277, 0}, {GROUPS, 124, 13}, {X, 2150496, 12}, {LEAF, 1.9995, 0}, {LEAF, -6.0, 0}, {LEAF, 1.9944, 0}, {Y, 1632, 20}, {C_REST, 1, 19},
	{K, 20, 18}, {LEAF, 0.022, 0}, {LEAF, -6.0, 0}, {LEAF, 2.9249, 0}, {ROWS, 59, 30}, {TILES_128, 14.5, 27}, {X_PLANE, 32.5, 26}, {DEPTH, 124, 25},
	{LEAF, 1.1945, 0}, {LEAF, -6.0, 0}, {LEAF, 2.416, 0}, {ROWS, 30.5, 29}, {LEAF, 5.5397, 0}, {LEAF, 2.8585, 0}, {WINDOW, 2.5, 40}, {X_PLANE, 5, 33},
	{LEAF, -6.0, 0}, {K, 1416, 35}, {LEAF, 0.0002, 0}, {IS_HALF, 0.5, 37}, {LEAF, 0.0007, 0}, {Y, 3178496, 39}, {LEAF, 1.2392, 0}, {LEAF, 0.4992, 0},
	{IS_HALF, 0.5, 44}, {TILES_64, 14.5, 43}, {LEAF, 0.8358, 0}, {LEAF, 0.0203, 0}, {X_PLANE, 12432.5, 46}, {LEAF, 1.5116, 0}, {LEAF, 0.2323, 0}
};
static const struct node narrow_first_largest_filter[] = {
	{GROUP_C, 1.5, 14}, {IS_HALF, 0.5, 3}, {LEAF, -6.0, 0}, {Y, 382592, 9}, {K, 787, 8}, {X, 39984, 7}, {LEAF, 2.4216, 0}, {LEAF, -6.0, 0},
	{LEAF, 2.3606, 0}, {K, 124, 13}, {X, 2150496, 12}, {LEAF, 2.122, 0}, {LEAF, -6.0, 0}, {LEAF, 2.1703, 0}, {X, 3772416, 44}, {WINDOW, 122.5, 43},
	{ROWS, 84, 20}, {K_REST, 0.5, 19}, {LEAF, 0.8653, 0}, {LEAF, 1.9721, 0}, {X, 539904, 36}, {Y_PLANE, 52.5, 31}, {N, 96, 30}, {K, 316, 29}, {K, 58, 26},
	{LEAF, 0.3557, 0}, {Y, 27936, 28}, {LEAF, 3.7889, 0}, {LEAF, 2.1399, 0}, {LEAF, 3.1865, 0}, {LEAF, 0.1284, 0}, {WINDOW, 4, 33}, {LEAF, 1.4448, 0},
	{W, 393984, 35}, {LEAF, 2.9531, 0}, {LEAF, 0.3399, 0}, {Y_PLANE, 3998, 40}, {N, 2.5, 39}, {LEAF, -0.0576, 0}, {LEAF, 1.0343, 0}, {Y, 5554176, 42},
	{LEAF, 1.8325, 0}, {LEAF, 1.0181, 0}, {LEAF, 5.3929, 0}, {X, 13779968, 46}, {LEAF, 0.6026, 0}, {LEAF, 0.1511, 0}
};
static const struct node narrow_last_filter_form[] = {
	{ROWS, 1704, 32}, {GROUP_C, 7, 15}, {ROWS, 594, 10}, {TILES_128, 1.5, 9}, {N, 7, 6}, {LEAF, 0, 0}, {X_PLANE, 64.5, 8}, {LEAF, 0, 0}, {LEAF, 9, 0},
	{LEAF, 3, 0}, {WINDOW, 7, 12}, {LEAF, 0, 0}, {Y, 46472, 14}, {LEAF, 0, 0}, {LEAF, 9, 0}, {K_REST, 1.5, 29}, {C_REST, 0.5, 24}, {GROUPS, 1.5, 19},
	{LEAF, 0, 0}, {GROUPS, 4, 21}, {LEAF, 1, 0}, {TILES_128, 7, 23}, {LEAF, 0, 0}, {LEAF, 9, 0}, {X_PLANE, 56.5, 28}, {TILES_64, 13.5, 27}, {LEAF, 0, 0},
	{LEAF, 3, 0}, {LEAF, 9, 0}, {ROWS, 609, 31}, {LEAF, 0, 0}, {LEAF, 9, 0}, {ROWS, 5804, 46}, {DEPTH, 56.5, 37}, {W, 204, 36}, {LEAF, 0, 0},
	{LEAF, 9, 0}, {Y, 1443960, 43}, {N, 5, 42}, {ROWS, 4214, 41}, {LEAF, 0, 0}, {LEAF, 9, 0}, {LEAF, 9, 0}, {GROUPS, 1.5, 45}, {LEAF, 0, 0},
	{LEAF, 10, 0}, {TILES_64, 137, 58}, {ROWS, 21312, 57}, {WINDOW, 37, 56}, {DEPTH, 552, 51}, {LEAF, 9, 0}, {N, 48, 55}, {Y, 1013632, 54}, {LEAF, 0, 0},
	{LEAF, 9, 0}, {LEAF, 9, 0}, {LEAF, 0, 0}, {LEAF, 9, 0}, {GROUP_C, 2592, 62}, {ROWS, 24512, 61}, {LEAF, 0, 0}, {LEAF, 9, 0}, {LEAF, 9, 0}
};
static const struct node narrow_last_filter_s[] = {
	{GROUP_C, 31, 26}, {N, 14, 15}, {N, 5, 10}, {WINDOW, 152.5, 9}, {C, 11, 6}, {LEAF, 7.4485, 0}, {N, 1.5, 8}, {LEAF, 3.263, 0}, {LEAF, 5.0, 0},
	{LEAF, 0.0029, 0}, {C, 9, 12}, {LEAF, 10.1684, 0}, {W, 160, 14}, {LEAF, 10.0487, 0}, {LEAF, 6.0, 0}, {N, 20, 19}, {C, 15, 18}, {LEAF, 9.018, 0},
	{LEAF, 7.0, 0}, {TILES_64, 1.5, 25}, {N, 48, 24}, {C, 14, 23}, {LEAF, 11.988, 0}, {LEAF, 8.0, 0}, {LEAF, 9.0435, 0}, {LEAF, 6.3923, 0},
	{ROWS, 21978, 36}, {DEPTH, 419.5, 33}, {K_REST, 0.5, 32}, {ROWS, 10184, 31}, {LEAF, 2.3219, 0}, {LEAF, 3.5565, 0}, {LEAF, 4.4594, 0},
	{ROWS, 4268, 35}, {LEAF, 1.0, 0}, {LEAF, 2.0, 0}, {TILES_128, 4.5, 44}, {ROWS, 41344, 41}, {K_REST, 0.5, 40}, {LEAF, 4.3413, 0}, {LEAF, 7.0223, 0},
	{W, 2736, 43}, {LEAF, 7.0183, 0}, {LEAF, 5.4003, 0}, {TILES_64, 38, 46}, {LEAF, 3.7541, 0}, {LEAF, 3.0, 0}
};
static const struct node narrow_last_filter_xyws[] = {
	{DEPTH, 217.5, 10}, {W, 1032, 3}, {LEAF, 14.7462, 0}, {Y, 1210368, 7}, {X_PLANE, 275, 6}, {LEAF, 6.7916, 0}, {LEAF, 4.3004, 0}, {Y, 3981312, 9},
	{LEAF, 9.7039, 0}, {LEAF, 7.3445, 0}, {X, 238608, 12}, {LEAF, -6.4274, 0}, {X_PLANE, 121.5, 14}, {LEAF, -0.415, 0}, {X, 4185360, 16},
	{LEAF, 2.7005, 0}, {LEAF, 2.7005, 0}
};
static const struct node narrow_last_filter_xys[] = {
	{Y_PLANE, 2813.5, 2}, {LEAF, 3.1962, 0}, {LEAF, 6.1832, 0}
};
static const struct node narrow_last_largest_forward[] = {
	{GROUP_C, 2, 12}, {ROWS, 224, 3}, {LEAF, 1.6498, 0}, {K_REST, 0.5, 9}, {ROWS, 904, 8}, {WINDOW, 17, 7}, {LEAF, 1.9711, 0}, {LEAF, 1.8902, 0},
	{LEAF, 1.997, 0}, {C_REST, 5, 11}, {LEAF, 1.839, 0}, {LEAF, 1.9349, 0}, {ROWS, 85, 26}, {C, 136, 19}, {C_REST, 1, 18}, {W, 75008, 17},
	{LEAF, -3.6496, 0}, {LEAF, -5.5437, 0}, {LEAF, 1.9468, 0}, {ROWS, 42.5, 23}, {ROWS, 8.5, 22}, {LEAF, 3.1631, 0}, {LEAF, 4.1732, 0},
	{TILES_64, 174, 25}, {LEAF, 1.2708, 0}, {LEAF, 2.4594, 0}, {WINDOW, 12.5, 44}, {Y, 53352, 35}, {X_PLANE, 405, 34}, {GROUP_C, 1340, 33},
	{K_REST, 0.5, 32}, {LEAF, 0.0113, 0}, {LEAF, 0.2113, 0}, {LEAF, 0.5439, 0}, {LEAF, 0.9633, 0}, {ROWS, 1836, 43}, {TILES_64, 155, 38},
	{LEAF, 0.0024, 0}, {IS_HALF, 0.5, 40}, {LEAF, 0.0046, 0}, {ROWS, 1356, 42}, {LEAF, 0.3018, 0}, {LEAF, 0.8959, 0}, {LEAF, 0.0002, 0}, {Y, 1852928, 46},
	{LEAF, 0.1195, 0}, {LEAF, 0.7333, 0}
};
static const struct node narrow_last_largest_data[] = {
	{GROUPS, 13, 30}, {Y, 128, 3}, {LEAF, 2.1152, 0}, {Y, 2880, 5}, {LEAF, -6.0, 0}, {X, 624, 7}, {LEAF, 2.0285, 0}, {Y_PLANE, 5, 11}, {IS_HALF, 0.5, 10},
	{LEAF, -6.0, 0}, {LEAF, 1.8969, 0}, {X_PLANE, 51492, 27}, {TILES_128, 156.5, 24}, {GROUPS, 1.5, 23}, {C_REST, 5, 22}, {WINDOW, 17, 21},
	{C_REST, 3, 18}, {LEAF, 0.0, 0}, {Y_PLANE, 287, 20}, {LEAF, 0.8346, 0}, {LEAF, 0.0058, 0}, {LEAF, 0.5954, 0}, {LEAF, 0.4042, 0}, {LEAF, 0.5361, 0},
	{N, 3.5, 26}, {LEAF, 2.5702, 0}, {LEAF, 0.0, 0}, {N, 5, 29}, {LEAF, 0.1888, 0}, {LEAF, 1.3302, 0}, {ROWS, 224, 32}, {LEAF, 1.65, 0},
	{K_REST, 0.5, 42}, {ROWS, 686, 37}, {WINDOW, 17, 36}, {LEAF, 1.966, 0}, {LEAF, 1.8915, 0}, {Y_PLANE, 1920, 41}, {X_PLANE, 1103, 40},
	{LEAF, 1.9927, 0}, {LEAF, 1.9786, 0}, {LEAF, 1.9999, 0}, {C_REST, 5, 46}, {X, 126224, 45}, {LEAF, 1.7805, 0}, {LEAF, 1.8516, 0}, {LEAF, 1.9384, 0}
};
static const struct node narrow_last_largest_filter[] = {
	{GROUP_C, 30, 14}, {Y, 129040, 7}, {GROUPS, 57.5, 6}, {ROWS, 28, 5}, {LEAF, 2.2183, 0}, {LEAF, 4.7908, 0}, {LEAF, 3.3106, 0}, {ROWS, 1025, 9},
	{LEAF, 2.8592, 0}, {GROUP_C, 2, 11}, {LEAF, 2.1315, 0}, {ROWS, 372864, 13}, {LEAF, 1.4297, 0}, {LEAF, -0.8006, 0}, {X, 5533696, 40}, {ROWS, 327, 19},
	{K, 19, 18}, {LEAF, 2.2219, 0}, {LEAF, 0.6596, 0}, {GROUP_C, 254, 29}, {DEPTH, 792, 28}, {K_REST, 1.5, 27}, {ROWS, 686, 24}, {LEAF, -1.5718, 0},
	{N, 5, 26}, {LEAF, 0.5724, 0}, {LEAF, -0.1657, 0}, {LEAF, 0.8649, 0}, {LEAF, 1.585, 0}, {TILES_128, 20.5, 35}, {IS_HALF, 0.5, 34}, {Y_PLANE, 125, 33},
	{LEAF, -2.3513, 0}, {LEAF, -1.4452, 0}, {LEAF, -0.8648, 0}, {WINDOW, 5, 39}, {DEPTH, 556, 38}, {LEAF, -1.9428, 0}, {LEAF, -0.4422, 0},
	{LEAF, 0.4151, 0}, {X, 26787840, 44}, {K, 64, 43}, {LEAF, 1.0266, 0}, {LEAF, -1.406, 0}, {Y, 19574784, 46}, {LEAF, -2.5547, 0}, {LEAF, -3.5659, 0}
};
static const struct node tf32_first_forward_form[] = {
	{DEPTH, 280, 18}, {DEPTH, 71, 3}, {LEAF, 0, 0}, {GROUP_C, 68, 15}, {K, 72, 10}, {ROWS, 36488, 7}, {LEAF, 0, 0}, {Y, 3010560, 9}, {LEAF, 2, 0},
	{LEAF, 0, 0}, {C, 548, 14}, {C, 16, 13}, {LEAF, 0, 0}, {LEAF, 2, 0}, {LEAF, 0, 0}, {TILES_64, 162, 17}, {LEAF, 0, 0}, {LEAF, 1, 0}, {WINDOW, 2.5, 36},
	{ROWS, 60, 25}, {DEPTH, 672, 24}, {Y, 2592, 23}, {LEAF, 9, 0}, {LEAF, 0, 0}, {LEAF, 9, 0}, {W, 1302528, 35}, {N, 1.5, 32}, {GROUP_C, 644, 29},
	{LEAF, 0, 0}, {ROWS, 274, 31}, {LEAF, 9, 0}, {LEAF, 0, 0}, {Y, 14896, 34}, {LEAF, 0, 0}, {LEAF, 0, 0}, {LEAF, 1, 0}, {X, 187296, 44},
	{DEPTH, 1504, 43}, {C, 80, 40}, {LEAF, 0, 0}, {DEPTH, 624, 42}, {LEAF, 10, 0}, {LEAF, 3, 0}, {LEAF, 10, 0}, {C, 3.5, 46}, {LEAF, 0, 0}, {C, 102, 54},
	{TILES_64, 25.5, 53}, {DEPTH, 450, 52}, {ROWS, 28928, 51}, {LEAF, 0, 0}, {LEAF, 2, 0}, {LEAF, 3, 0}, {LEAF, 2, 0}, {Y, 163584, 56}, {LEAF, 3, 0},
	{TILES_128, 17, 58}, {LEAF, 2, 0}, {GROUP_C, 232, 62}, {N, 20, 61}, {LEAF, 10, 0}, {LEAF, 2, 0}, {LEAF, 2, 0}
};
static const struct node tf32_first_forward_s[] = {
	{ROWS, 37, 12}, {ROWS, 8.5, 7}, {K, 256, 6}, {K, 110, 5}, {LEAF, -3.2212, 0}, {LEAF, -4.4035, 0}, {LEAF, -5.9978, 0}, {W, 460800, 11}, {Y, 1792, 10},
	{LEAF, -1.4862, 0}, {LEAF, -1.9964, 0}, {LEAF, -3.3034, 0}, {TILES_128, 4.5, 14}, {LEAF, 6.5699, 0}, {ROWS, 119, 22}, {Y, 7024, 17},
	{LEAF, -0.9179, 0}, {ROWS, 52.5, 21}, {W, 672768, 20}, {LEAF, -0.3851, 0}, {LEAF, -0.8706, 0}, {LEAF, -0.2054, 0}, {X, 9535488, 28}, {K, 366, 27},
	{K, 184, 26}, {LEAF, 1.03, 0}, {LEAF, 0.6672, 0}, {LEAF, -0.1926, 0}, {LEAF, 3.5792, 0}
};
static const struct node tf32_first_forward_xyws[] = {
	{ROWS, 167, 6}, {X_PLANE, 138.5, 3}, {LEAF, -2.4935, 0}, {GROUP_C, 320, 5}, {LEAF, -6.4336, 0}, {LEAF, -7.6213, 0}, {TILES_128, 15, 12},
	{DEPTH, 306, 9}, {LEAF, 5.1565, 0}, {X_PLANE, 226, 11}, {LEAF, 2.0527, 0}, {LEAF, 3.0648, 0}, {Y, 420224, 16}, {DEPTH, 1872, 15}, {LEAF, 0.305, 0},
	{LEAF, -5.3055, 0}, {TILES_64, 208, 20}, {TILES_64, 121.5, 19}, {LEAF, 2.1521, 0}, {LEAF, 1.5611, 0}, {LEAF, 0.4661, 0}
};
static const struct node tf32_first_forward_xys[] = {{LEAF, 0, 0}};
static const struct node tf32_first_data_form[] = {
	{DEPTH, 204.5, 20}, {TILES_128, 4.5, 13}, {W, 135528, 12}, {DEPTH, 71, 5}, {LEAF, 0, 0}, {GROUP_C, 44, 11}, {C, 10, 8}, {LEAF, 0, 0}, {X, 213248, 10},
	{LEAF, 0, 0}, {LEAF, 2, 0}, {LEAF, 0, 0}, {LEAF, 10, 0}, {X_PLANE, 5, 17}, {ROWS, 2.5, 16}, {LEAF, 0, 0}, {LEAF, 9, 0}, {N, 1.5, 19}, {LEAF, 9, 0},
	{LEAF, 0, 0}, {WINDOW, 2.5, 46}, {K, 614, 33}, {Y_PLANE, 67, 30}, {K, 228, 25}, {LEAF, 0, 0}, {ROWS, 248, 27}, {LEAF, 0, 0}, {K, 436, 29},
	{LEAF, 1, 0}, {LEAF, 0, 0}, {N, 1.5, 32}, {LEAF, 0, 0}, {LEAF, 0, 0}, {ROWS, 198, 39}, {X_PLANE, 57, 36}, {LEAF, 9, 0}, {ROWS, 72.5, 38},
	{LEAF, 6, 0}, {LEAF, 10, 0}, {W, 2048000, 43}, {K, 2080, 42}, {LEAF, 0, 0}, {LEAF, 1, 0}, {K, 2736, 45}, {LEAF, 1, 0}, {LEAF, 0, 0}, {X, 322816, 56},
	{C_REST, 1.5, 55}, {WINDOW, 5.5, 52}, {TILES_128, 9.5, 51}, {LEAF, 0, 0}, {LEAF, 2, 0}, {Y, 155904, 54}, {LEAF, 0, 0}, {LEAF, 2, 0}, {LEAF, 9, 0},
	{WINDOW, 122.5, 62}, {GROUP_C, 26, 61}, {TILES_128, 3.5, 60}, {LEAF, 0, 0}, {LEAF, 2, 0}, {LEAF, 2, 0}, {LEAF, 9, 0}
};
static const struct node tf32_first_data_s[] = {
	{ROWS, 59.5, 16}, {ROWS, 8.5, 7}, {TILES_128, 14, 6}, {Y, 4416, 5}, {LEAF, -0.2026, 0}, {LEAF, -2.9589, 0}, {LEAF, -4.9972, 0}, {K, 1762, 15},
	{W, 32304, 10}, {LEAF, 0.1493, 0}, {X_PLANE, 39.5, 12}, {LEAF, -1.0573, 0}, {C, 1408, 14}, {LEAF, -0.5071, 0}, {LEAF, -0.8354, 0}, {LEAF, -2.3106, 0},
	{TILES_64, 8.5, 18}, {LEAF, 7.0875, 0}, {ROWS, 792, 30}, {Y_PLANE, 263, 29}, {W, 249856, 24}, {ROWS, 176.5, 23}, {LEAF, 1.0, 0}, {LEAF, 2.0, 0},
	{ROWS, 170, 26}, {LEAF, 0.0246, 0}, {N, 1.5, 28}, {LEAF, 0.6583, 0}, {LEAF, 1.0517, 0}, {LEAF, 1.586, 0}, {DEPTH, 678, 32}, {LEAF, 2.1659, 0},
	{LEAF, 3.5064, 0}
};
static const struct node tf32_first_data_xyws[] = {
	{Y, 2689024, 10}, {TILES_64, 43.5, 5}, {ROWS, 579, 4}, {LEAF, 0.4108, 0}, {LEAF, 2.0002, 0}, {X, 508152, 9}, {DEPTH, 1392, 8}, {LEAF, 0.0594, 0},
	{LEAF, -1.4531, 0}, {LEAF, 0.5306, 0}, {TILES_128, 8, 12}, {LEAF, 5.1824, 0}, {N, 20, 14}, {LEAF, 3.8867, 0}, {LEAF, 2.5672, 0}
};
static const struct node tf32_first_data_xys[] = {{LEAF, 0, 0}};
static const struct node tf32_first_filter_form[] = {
	{GROUP_C, 1.5, 2}, {LEAF, 0, 0}, {WINDOW, 2.5, 44}, {Y_PLANE, 5, 5}, {LEAF, 0, 0}, {N, 1.5, 17}, {X_PLANE, 498, 14}, {W, 6041, 9}, {LEAF, 0, 0},
	{W, 807936, 13}, {TILES_128, 9.5, 12}, {LEAF, 6, 0}, {LEAF, 6, 0}, {LEAF, 1, 0}, {GROUP_C, 408, 16}, {LEAF, 9, 0}, {LEAF, 6, 0}, {TILES_64, 181, 39},
	{W, 4960, 24}, {ROWS, 496, 21}, {LEAF, 0, 0}, {Y_PLANE, 8008, 23}, {LEAF, 8, 0}, {LEAF, 10, 0}, {Y_PLANE, 80.5, 38}, {ROWS, 472, 29}, {W, 10704, 28},
	{LEAF, 0, 0}, {LEAF, 8, 0}, {GROUP_C, 248, 31}, {LEAF, 8, 0}, {ROWS, 896, 33}, {LEAF, 1, 0}, {TILES_128, 4, 35}, {LEAF, 8, 0}, {GROUP_C, 1760, 37},
	{LEAF, 10, 0}, {LEAF, 8, 0}, {LEAF, 8, 0}, {Y_PLANE, 105, 43}, {Y, 77568, 42}, {LEAF, 8, 0}, {LEAF, 1, 0}, {LEAF, 8, 0}, {ROWS, 1264, 52},
	{ROWS, 69.5, 47}, {LEAF, 9, 0}, {X, 248064, 51}, {C, 28, 50}, {LEAF, 0, 0}, {LEAF, 2, 0}, {LEAF, 2, 0}, {DEPTH, 63, 56}, {N, 3.5, 55}, {LEAF, 9, 0},
	{LEAF, 0, 0}, {TILES_128, 55.5, 58}, {LEAF, 10, 0}, {C, 312, 60}, {LEAF, 2, 0}, {TILES_64, 738, 62}, {LEAF, 10, 0}, {LEAF, 2, 0}
};
static const struct node tf32_first_filter_s[] = {
	{ROWS, 194, 8}, {TILES_64, 24.5, 3}, {LEAF, 1.4389, 0}, {Y, 10584, 5}, {LEAF, -8.8808, 0}, {DEPTH, 1216, 7}, {LEAF, -8.9419, 0}, {LEAF, -9.0, 0},
	{GROUP_C, 121, 30}, {ROWS, 19968, 23}, {X_PLANE, 4986.5, 18}, {ROWS, 952, 13}, {LEAF, 2.8074, 0}, {ROWS, 1915, 15}, {LEAF, 4.7811, 0},
	{X, 285120, 17}, {LEAF, 5.5837, 0}, {LEAF, 6.0112, 0}, {GROUP_C, 12.5, 20}, {LEAF, 8.585, 0}, {ROWS, 10880, 22}, {LEAF, 5.8826, 0}, {LEAF, 7.1898, 0},
	{ROWS, 37880, 27}, {C, 16, 26}, {LEAF, 11.0855, 0}, {LEAF, 10.0979, 0}, {W, 1584, 29}, {LEAF, 11.6136, 0}, {LEAF, 12.8327, 0}, {C, 580, 38},
	{K, 896, 37}, {ROWS, 663, 34}, {LEAF, 2.7459, 0}, {Y, 449902.5, 36}, {LEAF, 3.9037, 0}, {LEAF, 4.3923, 0}, {LEAF, 2.0003, 0}, {K, 1100, 44},
	{TILES_64, 282, 43}, {ROWS, 504, 42}, {LEAF, 2.0, 0}, {LEAF, 2.1923, 0}, {LEAF, 1.2787, 0}, {Y_PLANE, 156.5, 46}, {LEAF, -0.263, 0}, {LEAF, 2.802, 0}
};
static const struct node tf32_first_filter_xyws[] = {
	{W, 95328, 24}, {W, 9888, 13}, {ROWS, 231424, 12}, {W, 2496, 5}, {LEAF, 6.6874, 0}, {X, 509184, 9}, {C_REST, 1.5, 8}, {LEAF, 4.6822, 0},
	{LEAF, 1.5979, 0}, {N, 7, 11}, {LEAF, 5.3237, 0}, {LEAF, 6.1699, 0}, {LEAF, 7.7962, 0}, {X, 313600, 15}, {LEAF, 2.8207, 0}, {GROUP_C, 6, 17},
	{LEAF, 5.858, 0}, {Y, 207872, 19}, {LEAF, 2.1163, 0}, {X_PLANE, 1048, 21}, {LEAF, 5.2884, 0}, {ROWS, 6336, 23}, {LEAF, 3.0, 0}, {LEAF, 4.2948, 0},
	{C, 248, 36}, {W, 175104, 29}, {ROWS, 17088, 28}, {LEAF, 2.5084, 0}, {LEAF, 3.8302, 0}, {X, 1856768, 33}, {X_PLANE, 2078, 32}, {LEAF, 2.0, 0},
	{LEAF, 0.003, 0}, {TILES_128, 26, 35}, {LEAF, 2.9412, 0}, {LEAF, 1.7861, 0}, {X, 448000, 40}, {X, 140800, 39}, {LEAF, 0.9811, 0}, {LEAF, -10.7038, 0},
	{W, 1050624, 46}, {WINDOW, 8, 45}, {DEPTH, 796, 44}, {LEAF, 0.1511, 0}, {LEAF, 1.0, 0}, {LEAF, 1.585, 0}, {LEAF, -0.2791, 0}
};
static const struct node tf32_first_filter_xys[] = {{LEAF, 0, 0}};
static const struct node tf32_first_largest_forward[] = {
	{GROUP_C, 2, 2}, {LEAF, -6.0, 0}, {X_PLANE, 57, 14}, {ROWS, 99, 7}, {ROWS, 35.5, 6}, {LEAF, 9.1127, 0}, {LEAF, 8.5451, 0}, {K, 136, 9},
	{LEAF, 5.9205, 0}, {TILES_64, 464, 13}, {GROUP_C, 232, 12}, {LEAF, 2.977, 0}, {LEAF, 7.1882, 0}, {LEAF, 8.5061, 0}, {GROUP_C, 328, 34},
	{ROWS, 6328, 19}, {Y, 79920, 18}, {LEAF, 2.8051, 0}, {LEAF, 0.3061, 0}, {TILES_64, 9.5, 27}, {ROWS, 11970, 24}, {X, 532544, 23}, {LEAF, 1.3652, 0},
	{LEAF, 5.0604, 0}, {W, 17408, 26}, {LEAF, 1.5409, 0}, {LEAF, 0.4124, 0}, {Y_PLANE, 10012.5, 33}, {X_PLANE, 4380.5, 32}, {N, 28, 31},
	{LEAF, 4.1933, 0}, {LEAF, 2.0729, 0}, {LEAF, 0.1981, 0}, {LEAF, 6.3748, 0}, {N, 28, 42}, {N, 12, 41}, {K, 272, 40}, {X, 984960, 39},
	{LEAF, 5.9914, 0}, {LEAF, 1.0193, 0}, {LEAF, 7.5231, 0}, {LEAF, 5.5286, 0}, {X_PLANE, 1285, 46}, {GROUP_C, 496, 45}, {LEAF, 1.2334, 0},
	{LEAF, 4.3611, 0}, {LEAF, 0.0413, 0}
};
static const struct node tf32_first_largest_data[] = {
	{GROUP_C, 2, 2}, {LEAF, -6.0, 0}, {ROWS, 163.5, 12}, {W, 12720, 5}, {LEAF, 1.5174, 0}, {ROWS, 28.5, 9}, {TILES_64, 14, 8}, {LEAF, 3.9183, 0},
	{LEAF, 5.2463, 0}, {W, 248832, 11}, {LEAF, 1.4431, 0}, {LEAF, 3.6781, 0}, {TILES_128, 132, 44}, {ROWS, 544, 19}, {Y, 217952, 18}, {DEPTH, 1264, 17},
	{LEAF, 0.3718, 0}, {LEAF, 0.7026, 0}, {LEAF, 1.3454, 0}, {WINDOW, 8, 29}, {ROWS, 2088, 26}, {K, 576, 25}, {TILES_128, 28.5, 24}, {LEAF, 0.1072, 0},
	{LEAF, 0.3219, 0}, {LEAF, 1.0611, 0}, {K, 368, 28}, {LEAF, 0.0029, 0}, {LEAF, 0.1077, 0}, {X_PLANE, 591.5, 31}, {LEAF, 3.749, 0}, {W, 206208, 43},
	{ROWS, 6664, 36}, {W, 108864, 35}, {LEAF, 3.2402, 0}, {LEAF, 4.5256, 0}, {Y_PLANE, 2571, 38}, {LEAF, 2.1127, 0}, {TILES_128, 4, 42}, {Y, 603656, 41},
	{LEAF, 0.7459, 0}, {LEAF, 0.051, 0}, {LEAF, 1.6028, 0}, {LEAF, 0.0, 0}, {X, 2542080, 46}, {LEAF, 1.3707, 0}, {LEAF, 5.8449, 0}
};
static const struct node tf32_first_largest_filter[] = {
	{GROUPS, 10, 44}, {ROWS, 1431, 15}, {X_PLANE, 2080, 14}, {ROWS, 99, 5}, {LEAF, 8.912, 0}, {K, 732, 13}, {N, 1.5, 8}, {LEAF, 8.1764, 0},
	{GROUP_C, 1200, 10}, {LEAF, 6.1754, 0}, {Y, 111104, 12}, {LEAF, 7.6709, 0}, {LEAF, 6.8486, 0}, {LEAF, 8.3156, 0}, {LEAF, 1.2065, 0},
	{GROUP_C, 152, 33}, {X, 1193472, 26}, {X_PLANE, 14464, 25}, {N, 1.5, 20}, {LEAF, 7.8984, 0}, {ROWS, 1848, 22}, {LEAF, 1.155, 0}, {ROWS, 3128, 24},
	{LEAF, 6.0721, 0}, {LEAF, 3.7182, 0}, {LEAF, 2.0479, 0}, {GROUP_C, 62.5, 30}, {WINDOW, 5, 29}, {LEAF, 1.9142, 0}, {LEAF, 0.4443, 0},
	{X_PLANE, 1084, 32}, {LEAF, 2.0681, 0}, {LEAF, 3.4208, 0}, {N, 12, 37}, {K, 576, 36}, {LEAF, 6.414, 0}, {LEAF, 7.8362, 0}, {GROUP_C, 496, 41},
	{Y_PLANE, 293, 40}, {LEAF, 1.6027, 0}, {LEAF, 3.1771, 0}, {N, 28, 43}, {LEAF, 5.4157, 0}, {LEAF, 4.3781, 0}, {GROUP_C, 2.5, 46}, {LEAF, -6.0, 0},
	{LEAF, 0.8753, 0}
};
static const struct node tf32_last_filter_form[] = {
	{ROWS, 1019, 24}, {C, 6.5, 5}, {Y, 215040, 4}, {LEAF, 9, 0}, {LEAF, 2, 0}, {Y_PLANE, 100, 9}, {ROWS, 792, 8}, {LEAF, 0, 0}, {LEAF, 10, 0},
	{ROWS, 410, 15}, {W, 15128, 12}, {LEAF, 0, 0}, {TILES_128, 5.5, 14}, {LEAF, 9, 0}, {LEAF, 0, 0}, {W, 1530, 17}, {LEAF, 0, 0}, {Y, 213248, 21},
	{N, 3.5, 20}, {LEAF, 9, 0}, {LEAF, 0, 0}, {W, 7056, 23}, {LEAF, 9, 0}, {LEAF, 0, 0}, {WINDOW, 37, 60}, {C, 7, 31}, {ROWS, 81920, 30},
	{ROWS, 31616, 29}, {LEAF, 10, 0}, {LEAF, 9, 0}, {LEAF, 0, 0}, {TILES_64, 1224, 59}, {DEPTH, 6.5, 36}, {Y_PLANE, 2440, 35}, {LEAF, 0, 0}, {LEAF, 9, 0},
	{WINDOW, 2.5, 44}, {DEPTH, 1184, 39}, {LEAF, 9, 0}, {ROWS, 2408, 41}, {LEAF, 0, 0}, {X_PLANE, 506, 43}, {LEAF, 9, 0}, {LEAF, 0, 0}, {X, 331258, 48},
	{Y_PLANE, 730, 47}, {LEAF, 0, 0}, {LEAF, 9, 0}, {W, 191616, 54}, {GROUP_C, 1.5, 51}, {LEAF, 9, 0}, {TILES_64, 7, 53}, {LEAF, 9, 0}, {LEAF, 9, 0},
	{WINDOW, 6.5, 56}, {LEAF, 0, 0}, {K, 896, 58}, {LEAF, 9, 0}, {LEAF, 10, 0}, {LEAF, 0, 0}, {X_PLANE, 1459.5, 62}, {LEAF, 0, 0}, {LEAF, 10, 0}
};
static const struct node tf32_last_filter_s[] = {
	{TILES_128, 4.5, 32}, {C, 31, 11}, {TILES_64, 4.5, 10}, {ROWS, 26944, 5}, {LEAF, 7.8776, 0}, {GROUPS, 6.5, 9}, {K, 108, 8}, {LEAF, 10.875, 0},
	{LEAF, 8.29, 0}, {LEAF, 8.2979, 0}, {LEAF, 5.1293, 0}, {W, 8416, 21}, {Y_PLANE, 1860, 18}, {K, 250, 17}, {X, 297984, 16}, {LEAF, 5.1699, 0},
	{LEAF, 6.6383, 0}, {LEAF, 5.3249, 0}, {DEPTH, 5, 20}, {LEAF, 9.5502, 0}, {LEAF, 7.1729, 0}, {ROWS, 3896, 29}, {WINDOW, 17, 26}, {ROWS, 324, 25},
	{LEAF, 1.585, 0}, {LEAF, 4.3219, 0}, {N, 12, 28}, {LEAF, 1.8833, 0}, {LEAF, 6.419, 0}, {WINDOW, 2.5, 31}, {LEAF, 6.0444, 0}, {LEAF, 4.869, 0},
	{ROWS, 140, 34}, {LEAF, -8.8057, 0}, {TILES_64, 109.5, 40}, {ROWS, 606, 37}, {LEAF, 2.585, 0}, {DEPTH, 196, 39}, {LEAF, 4.8746, 0}, {LEAF, 3.8074, 0},
	{DEPTH, 2176, 44}, {TILES_64, 350, 43}, {LEAF, 2.3219, 0}, {LEAF, -0.245, 0}, {K, 224, 46}, {LEAF, -11.3252, 0}, {LEAF, -0.1253, 0}
};
static const struct node tf32_last_filter_xyws[] = {
	{W, 55680, 10}, {W, 2136, 3}, {LEAF, 8.6202, 0}, {ROWS, 18156, 7}, {DEPTH, 117, 6}, {LEAF, 5.0431, 0}, {LEAF, 3.8383, 0}, {W, 8724, 9},
	{LEAF, 6.5236, 0}, {LEAF, 5.2696, 0}, {C_REST, 1, 14}, {TILES_64, 22.5, 13}, {LEAF, 1.5857, 0}, {LEAF, 3.5276, 0}, {LEAF, 0.4152, 0}
};
static const struct node tf32_last_filter_xys[] = {{LEAF, 0, 0}};
static const struct node tf32_last_largest_forward[] = {
	{GROUP_C, 736, 32}, {Y, 8528, 5}, {N, 5.5, 4}, {LEAF, 9.1097, 0}, {LEAF, 8.3632, 0}, {WINDOW, 37, 29}, {Y, 35946496, 28}, {GROUPS, 1.5, 27},
	{GROUP_C, 432, 22}, {DEPTH, 124, 17}, {C, 100, 16}, {Y_PLANE, 4160, 15}, {W, 4032, 14}, {LEAF, 1.8178, 0}, {LEAF, 0.8912, 0}, {LEAF, 2.9261, 0},
	{LEAF, 5.0191, 0}, {C, 264, 21}, {C, 216, 20}, {LEAF, 0.7279, 0}, {LEAF, 4.9336, 0}, {LEAF, 0.4088, 0}, {TILES_128, 9, 24}, {LEAF, 7.4774, 0},
	{ROWS, 3136, 26}, {LEAF, 0.4977, 0}, {LEAF, 3.2442, 0}, {LEAF, 2.0044, 0}, {LEAF, 3.8508, 0}, {C, 176, 31}, {LEAF, -0.7913, 0}, {LEAF, -2.8901, 0},
	{Y, 124336, 38}, {ROWS, 145.5, 37}, {Y, 5136, 36}, {LEAF, 9.1519, 0}, {LEAF, 8.6668, 0}, {LEAF, 7.5731, 0}, {ROWS, 588, 40}, {LEAF, 0.4471, 0},
	{N, 20, 44}, {Y, 493248, 43}, {LEAF, 6.8116, 0}, {LEAF, 8.2486, 0}, {ROWS, 6160, 46}, {LEAF, 5.6758, 0}, {LEAF, 4.0951, 0}
};
static const struct node tf32_last_largest_data[] = {
	{WINDOW, 8, 32}, {ROWS, 20, 7}, {K, 691, 6}, {Y, 454, 5}, {LEAF, 3.794, 0}, {LEAF, 2.9487, 0}, {LEAF, 7.7251, 0}, {ROWS, 388, 19}, {W, 29696, 10},
	{LEAF, 0.0001, 0}, {X, 27936, 12}, {LEAF, 2.659, 0}, {K, 144, 14}, {LEAF, 0.7806, 0}, {ROWS, 136, 16}, {LEAF, 1.7655, 0}, {X, 342864, 18},
	{LEAF, 1.2567, 0}, {LEAF, 0.7333, 0}, {TILES_64, 1.5, 21}, {LEAF, 2.0, 0}, {ROWS, 686, 25}, {Y, 196224, 24}, {LEAF, 0.0, 0}, {LEAF, 0.7077, 0},
	{X, 223232, 29}, {K, 156, 28}, {LEAF, 0.0, 0}, {LEAF, 0.2998, 0}, {X, 996064, 31}, {LEAF, 0.0, 0}, {LEAF, 0.0, 0}, {DEPTH, 1728, 46},
	{ROWS, 231424, 45}, {TILES_128, 8, 44}, {W, 89472, 43}, {TILES_64, 5, 42}, {C_REST, 0.5, 39}, {LEAF, 2.0, 0}, {C, 69.5, 41}, {LEAF, 1.9433, 0},
	{LEAF, 1.9804, 0}, {LEAF, 3.1713, 0}, {LEAF, 1.1191, 0}, {LEAF, 4.0522, 0}, {LEAF, 0.2669, 0}, {LEAF, 5.9903, 0}
};
static const struct node tf32_last_largest_filter[] = {
	{ROWS, 508, 12}, {WINDOW, 2.5, 9}, {ROWS, 145.5, 4}, {LEAF, 8.8442, 0}, {W, 76544, 6}, {LEAF, 6.843, 0}, {TILES_64, 252.5, 8}, {LEAF, 7.9678, 0},
	{LEAF, 9.4956, 0}, {TILES_64, 3.5, 11}, {LEAF, 3.1486, 0}, {LEAF, 1.8259, 0}, {GROUP_C, 50, 20}, {X, 758640, 19}, {GROUPS, 29, 16}, {LEAF, 5.3332, 0},
	{DEPTH, 17, 18}, {LEAF, 2.4245, 0}, {LEAF, 3.0314, 0}, {LEAF, 2.0663, 0}, {ROWS, 3776, 32}, {X_PLANE, 275, 27}, {K, 112, 24}, {LEAF, 2.646, 0},
	{Y, 280768, 26}, {LEAF, 6.6853, 0}, {LEAF, 5.2188, 0}, {DEPTH, 368, 29}, {LEAF, 6.7188, 0}, {Y, 868336, 31}, {LEAF, 7.9798, 0}, {LEAF, 9.162, 0},
	{N, 12, 38}, {WINDOW, 5, 37}, {TILES_64, 12, 36}, {LEAF, 5.0887, 0}, {LEAF, 6.1579, 0}, {LEAF, 3.3009, 0}, {C, 168, 42}, {DEPTH, 116, 41},
	{LEAF, 2.023, 0}, {LEAF, 2.9198, 0}, {K, 224, 44}, {LEAF, 3.6102, 0}, {N, 48, 46}, {LEAF, 4.5963, 0}, {LEAF, 3.8387, 0}
};
static const struct node float_first_filter_form[] = {
	{TILES_64, 23, 12}, {W, 35856, 3}, {LEAF, 0, 0}, {X, 570880, 11}, {GROUP_C, 88, 8}, {DEPTH, 360, 7}, {LEAF, 0, 0}, {LEAF, 9, 0}, {Y, 3072, 10},
	{LEAF, 0, 0}, {LEAF, 1, 0}, {LEAF, 0, 0}, {WINDOW, 2.5, 48}, {W, 257600, 35}, {X, 1222272, 24}, {ROWS, 73.5, 19}, {K, 164, 18}, {LEAF, 9, 0},
	{LEAF, 0, 0}, {ROWS, 582, 21}, {LEAF, 1, 0}, {ROWS, 721.5, 23}, {LEAF, 0, 0}, {LEAF, 1, 0}, {N, 20, 28}, {TILES_64, 53.5, 27}, {LEAF, 0, 0},
	{LEAF, 1, 0}, {K, 148, 30}, {LEAF, 0, 0}, {DEPTH, 232, 32}, {LEAF, 0, 0}, {W, 112896, 34}, {LEAF, 9, 0}, {LEAF, 1, 0}, {X_PLANE, 5, 37}, {LEAF, 0, 0},
	{DEPTH, 222, 39}, {LEAF, 0, 0}, {K, 203, 45}, {Y_PLANE, 77.5, 42}, {LEAF, 1, 0}, {Y, 820224, 44}, {LEAF, 0, 0}, {LEAF, 9, 0}, {ROWS, 53888, 47},
	{LEAF, 1, 0}, {LEAF, 9, 0}, {C, 68, 50}, {LEAF, 0, 0}, {ROWS, 20224, 62}, {X, 397312, 57}, {WINDOW, 8, 54}, {LEAF, 0, 0}, {ROWS, 226, 56},
	{LEAF, 9, 0}, {LEAF, 10, 0}, {ROWS, 8704, 59}, {LEAF, 2, 0}, {TILES_128, 46, 61}, {LEAF, 0, 0}, {LEAF, 2, 0}, {LEAF, 9, 0}
};
static const struct node float_first_filter_s[] = {
	{WINDOW, 5, 16}, {W, 92672, 3}, {LEAF, -8.848, 0}, {X_PLANE, 12.5, 5}, {LEAF, -8.9589, 0}, {C, 1720, 15}, {C, 304, 8}, {LEAF, -9.0, 0},
	{W, 126432, 10}, {LEAF, -9.0, 0}, {GROUP_C, 640, 12}, {LEAF, -9.0, 0}, {W, 215552, 14}, {LEAF, -9.0, 0}, {LEAF, -8.984, 0}, {LEAF, -8.9925, 0},
	{ROWS, 504.5, 20}, {W, 2433024, 19}, {LEAF, -9.0, 0}, {LEAF, -9.0, 0}, {ROWS, 9728, 26}, {ROWS, 2352, 23}, {LEAF, 2.4534, 0}, {W, 884736, 25},
	{LEAF, 4.3219, 0}, {LEAF, 3.3219, 0}, {TILES_64, 24.5, 30}, {ROWS, 59776, 29}, {LEAF, 8.2189, 0}, {LEAF, 9.2095, 0}, {X_PLANE, 7840, 32},
	{LEAF, 6.6439, 0}, {LEAF, 8.9242, 0}
};
static const struct node float_first_filter_xyws[] = {
	{K_REST, 0.5, 14}, {ROWS, 6976, 9}, {ROWS, 648, 4}, {LEAF, 1.7127, 0}, {TILES_64, 31.5, 6}, {LEAF, 4.4025, 0}, {ROWS, 2618, 8}, {LEAF, 2.5892, 0},
	{LEAF, 3.3947, 0}, {N, 48, 13}, {Y_PLANE, 3616, 12}, {LEAF, 5.7968, 0}, {LEAF, 7.5897, 0}, {LEAF, 9.0257, 0}, {LEAF, -5.9876, 0}
};
static const struct node float_first_filter_xys[] = {{LEAF, 0, 0}};
static const struct node float_first_largest_forward[] = {
	{GROUP_C, 88, 8}, {Y_PLANE, 5, 3}, {LEAF, 8.8084, 0}, {Y_PLANE, 25154, 7}, {C, 1984, 6}, {LEAF, -6.0, 0}, {LEAF, -3.3715, 0}, {LEAF, 4.1675, 0},
	{ROWS, 2044, 32}, {X_PLANE, 232.5, 29}, {X, 32928, 14}, {ROWS, 40.5, 13}, {LEAF, 9.1326, 0}, {LEAF, 8.5223, 0}, {N, 2.5, 16}, {LEAF, -6.0, 0},
	{W, 168768, 22}, {X, 126720, 19}, {LEAF, -0.6696, 0}, {ROWS, 1164, 21}, {LEAF, 6.3702, 0}, {LEAF, 5.3907, 0}, {ROWS, 582, 26}, {DEPTH, 2616, 25},
	{LEAF, 7.943, 0}, {LEAF, -6.0, 0}, {TILES_64, 152, 28}, {LEAF, 6.4349, 0}, {LEAF, 7.1767, 0}, {ROWS, 1278, 31}, {LEAF, -6.0, 0}, {LEAF, 8.2396, 0},
	{X, 1224192, 36}, {GROUP_C, 160, 35}, {LEAF, 3.5352, 0}, {LEAF, -6.0, 0}, {X, 30498816, 46}, {C, 208, 43}, {ROWS, 123904, 42}, {X_PLANE, 904, 41},
	{LEAF, 2.3255, 0}, {LEAF, -6.0, 0}, {LEAF, 4.8284, 0}, {W, 56392, 45}, {LEAF, 2.7744, 0}, {LEAF, 4.5002, 0}, {LEAF, -6.0, 0}
};
static const struct node float_first_largest_data[] = {
	{Y_PLANE, 12094.5, 2}, {LEAF, -6.0, 0}, {C_REST, 1, 6}, {DEPTH, 272, 5}, {LEAF, -6.0, 0}, {LEAF, -2.0806, 0}, {LEAF, 0.283, 0}
};
static const struct node float_first_largest_filter[] = {
	{GROUPS, 11, 44}, {ROWS, 1552, 15}, {WINDOW, 5, 14}, {ROWS, 206, 9}, {ROWS, 5, 6}, {LEAF, 9.1329, 0}, {K, 350, 8}, {LEAF, 8.5003, 0},
	{LEAF, 8.9332, 0}, {Y, 345216, 13}, {ROWS, 421, 12}, {LEAF, 7.1315, 0}, {LEAF, 6.23, 0}, {LEAF, 8.1541, 0}, {LEAF, 0.0, 0}, {GROUP_C, 56, 23},
	{C_REST, 1, 22}, {N, 3, 19}, {LEAF, -0.0003, 0}, {Y_PLANE, 5248, 21}, {LEAF, 2.1103, 0}, {LEAF, 3.0528, 0}, {LEAF, 0.1214, 0}, {ROWS, 6592, 33},
	{W, 54272, 26}, {LEAF, 3.6225, 0}, {ROWS, 2044, 30}, {Y, 346368, 29}, {LEAF, 5.3043, 0}, {LEAF, 6.6688, 0}, {K, 208, 32}, {LEAF, 4.332, 0},
	{LEAF, 5.1038, 0}, {Y_PLANE, 7572, 43}, {X_PLANE, 3858.5, 42}, {K, 136, 39}, {X, 1876480, 38}, {LEAF, 3.1984, 0}, {LEAF, 1.828, 0}, {N, 24, 41},
	{LEAF, 6.1127, 0}, {LEAF, 3.1521, 0}, {LEAF, 0.0, 0}, {LEAF, 5.2684, 0}, {GROUP_C, 1.5, 46}, {LEAF, -6.0, 0}, {LEAF, -1.4378, 0}
};
static const struct node float_last_forward_form[] = {
	{GROUP_C, 103, 32}, {DEPTH, 118, 19}, {GROUP_C, 30, 4}, {LEAF, 0, 0}, {Y, 2356224, 12}, {Y, 263680, 7}, {LEAF, 0, 0}, {W, 4352, 9}, {LEAF, 0, 0},
	{TILES_64, 5, 11}, {LEAF, 1, 0}, {LEAF, 0, 0}, {K, 88, 16}, {Y, 3702784, 15}, {LEAF, 1, 0}, {LEAF, 0, 0}, {TILES_64, 2.5, 18}, {LEAF, 0, 0},
	{LEAF, 1, 0}, {K, 336, 27}, {C, 9.5, 22}, {LEAF, 0, 0}, {C_REST, 2, 26}, {W, 39168, 25}, {LEAF, 2, 0}, {LEAF, 2, 0}, {LEAF, 9, 0}, {X, 2752512, 31},
	{X_PLANE, 124, 30}, {LEAF, 0, 0}, {LEAF, 0, 0}, {LEAF, 9, 0}, {WINDOW, 2.5, 54}, {Y_PLANE, 5, 35}, {LEAF, 0, 0}, {C_REST, 4.5, 53}, {C, 152, 44},
	{K, 62, 41}, {TILES_64, 2.5, 40}, {LEAF, 1, 0}, {LEAF, 0, 0}, {Y_PLANE, 67, 43}, {LEAF, 1, 0}, {LEAF, 1, 0}, {K_REST, 1, 50}, {Y_PLANE, 18.5, 49},
	{ROWS, 248, 48}, {LEAF, 1, 0}, {LEAF, 0, 0}, {LEAF, 1, 0}, {Y, 213398, 52}, {LEAF, 1, 0}, {LEAF, 1, 0}, {LEAF, 9, 0}, {X, 38535168, 62},
	{Y_PLANE, 42.5, 57}, {LEAF, 2, 0}, {ROWS, 28928, 59}, {LEAF, 2, 0}, {Y_PLANE, 2216, 61}, {LEAF, 2, 0}, {LEAF, 2, 0}, {LEAF, 10, 0}
};
static const struct node float_last_forward_s[] = {
	{ROWS, 8176, 4}, {ROWS, 3368, 3}, {LEAF, 2.8188, 0}, {LEAF, 6.188, 0}, {LEAF, 10.2119, 0}
};
static const struct node float_last_forward_xyws[] = {
	{ROWS, 49456, 2}, {LEAF, -2.9464, 0}, {LEAF, 11.7676, 0}
};
static const struct node float_last_forward_xys[] = {{LEAF, 0, 0}};
static const struct node float_last_filter_form[] = {
	{GROUPS, 1.5, 38}, {WINDOW, 8, 19}, {X, 24887296, 14}, {X, 102016, 13}, {DEPTH, 1896, 12}, {K_REST, 0.5, 7}, {LEAF, 0, 0}, {ROWS, 104, 9},
	{LEAF, 0, 0}, {K_REST, 1.5, 11}, {LEAF, 9, 0}, {LEAF, 0, 0}, {LEAF, 9, 0}, {LEAF, 0, 0}, {W, 90112, 16}, {LEAF, 0, 0}, {DEPTH, 2376, 18},
	{LEAF, 9, 0}, {LEAF, 0, 0}, {TILES_128, 4.5, 21}, {LEAF, 0, 0}, {ROWS, 776, 27}, {C, 112, 26}, {ROWS, 297, 25}, {LEAF, 3, 0}, {LEAF, 0, 0},
	{LEAF, 0, 0}, {X_PLANE, 32840, 37}, {Y, 11452416, 36}, {X, 1441792, 31}, {LEAF, 10, 0}, {TILES_64, 61.5, 33}, {LEAF, 0, 0}, {Y_PLANE, 680, 35},
	{LEAF, 0, 0}, {LEAF, 10, 0}, {LEAF, 10, 0}, {LEAF, 0, 0}, {X, 875136, 52}, {GROUPS, 8, 41}, {LEAF, 1, 0}, {Y, 48096, 43}, {LEAF, 0, 0},
	{ROWS, 3776, 51}, {X_PLANE, 353.5, 48}, {X, 94112, 47}, {LEAF, 9, 0}, {LEAF, 0, 0}, {ROWS, 1389, 50}, {LEAF, 0, 0}, {LEAF, 9, 0}, {LEAF, 0, 0},
	{WINDOW, 37, 62}, {GROUPS, 10, 55}, {LEAF, 10, 0}, {K_REST, 2, 61}, {DEPTH, 7, 60}, {GROUPS, 144, 59}, {LEAF, 9, 0}, {LEAF, 0, 0}, {LEAF, 9, 0},
	{LEAF, 0, 0}, {LEAF, 0, 0}
};
static const struct node float_last_filter_s[] = {
	{TILES_128, 6.5, 44}, {C, 992, 39}, {W, 396, 6}, {W, 180, 5}, {LEAF, 9.051, 0}, {LEAF, 7.8842, 0}, {GROUP_C, 64, 38}, {GROUPS, 248, 29},
	{Y, 2531328, 26}, {X, 1449472, 21}, {W, 864, 14}, {Y_PLANE, 501, 13}, {LEAF, 6.1435, 0}, {LEAF, 6.4416, 0}, {GROUPS, 152, 20}, {N, 20, 19},
	{GROUPS, 102, 18}, {LEAF, 4.1699, 0}, {LEAF, 5.3065, 0}, {LEAF, 5.6962, 0}, {LEAF, 6.4205, 0}, {GROUPS, 94, 23}, {LEAF, 6.1435, 0}, {W, 2124, 25},
	{LEAF, 6.9589, 0}, {LEAF, 8.3975, 0}, {W, 1836, 28}, {LEAF, 6.8889, 0}, {LEAF, 8.8202, 0}, {X_PLANE, 238, 33}, {W, 4680, 32}, {LEAF, 5.6166, 0},
	{LEAF, 7.8826, 0}, {X_PLANE, 8300, 37}, {Y_PLANE, 2350, 36}, {LEAF, 5.3249, 0}, {LEAF, 3.8074, 0}, {LEAF, 6.5932, 0}, {LEAF, 1.7409, 0},
	{W, 25296, 43}, {GROUPS, 1584, 42}, {LEAF, 3.3219, 0}, {LEAF, 6.3038, 0}, {LEAF, 2.275, 0}, {K, 92, 46}, {LEAF, -8.8409, 0}, {LEAF, -8.9859, 0}
};
static const struct node float_last_filter_xyws[] = {
	{ROWS, 14464, 12}, {K_REST, 0.5, 11}, {GROUP_C, 90, 6}, {GROUPS, 356, 5}, {LEAF, 4.9032, 0}, {LEAF, 6.392, 0}, {ROWS, 2648, 10}, {W, 1769472, 9},
	{LEAF, 3.0075, 0}, {LEAF, 2.2375, 0}, {LEAF, 4.0224, 0}, {LEAF, -5.3472, 0}, {ROWS, 126784, 20}, {TILES_64, 22.5, 15}, {LEAF, 9.0754, 0},
	{ROWS, 28928, 17}, {LEAF, 5.715, 0}, {TILES_64, 148.5, 19}, {LEAF, 7.0618, 0}, {LEAF, 6.5324, 0}, {LEAF, 11.0028, 0}
};
static const struct node float_last_filter_xys[] = {{LEAF, 0, 0}};
static const struct node float_last_largest_forward[] = {
	{Y, 111744, 12}, {GROUP_C, 6.5, 3}, {LEAF, -4.1695, 0}, {Y, 6696, 7}, {X_PLANE, 5, 6}, {LEAF, 9.1281, 0}, {LEAF, 8.4175, 0}, {K, 344, 11},
	{K, 82, 10}, {LEAF, 6.3098, 0}, {LEAF, 7.5601, 0}, {LEAF, -0.5208, 0}, {GROUPS, 85.5, 38}, {TILES_128, 3.5, 23}, {ROWS, 27650, 18}, {DEPTH, 28.5, 17},
	{LEAF, -1.5827, 0}, {LEAF, -0.0063, 0}, {WINDOW, 5, 22}, {N, 28, 21}, {LEAF, 4.384, 0}, {LEAF, 1.6728, 0}, {LEAF, 0.0, 0}, {TILES_64, 192, 35},
	{WINDOW, 2.5, 32}, {Y, 401408, 27}, {LEAF, 6.5611, 0}, {TILES_64, 39, 31}, {X, 6391296, 30}, {LEAF, 4.7278, 0}, {LEAF, 3.4983, 0}, {LEAF, 5.4383, 0},
	{X_PLANE, 2162.5, 34}, {LEAF, 3.3854, 0}, {LEAF, 0.0002, 0}, {ROWS, 291, 37}, {LEAF, -1.3313, 0}, {LEAF, -0.0618, 0}, {GROUPS, 439.5, 44},
	{X_PLANE, 240.5, 41}, {LEAF, -2.001, 0}, {C, 136, 43}, {LEAF, -3.2586, 0}, {LEAF, -4.3214, 0}, {X, 779136, 46}, {LEAF, -4.4928, 0}, {LEAF, -6.0, 0}
};
static const struct node float_last_largest_data[] = {
	{X_PLANE, 5, 2}, {LEAF, -6.0, 0}, {GROUPS, 304, 40}, {DEPTH, 5, 5}, {LEAF, -3.9999, 0}, {DEPTH, 11.5, 9}, {N, 12, 8}, {LEAF, -2.1136, 0},
	{LEAF, -0.3526, 0}, {WINDOW, 8, 29}, {C_REST, 2, 28}, {K_REST, 1, 27}, {X, 70576, 14}, {LEAF, 0.0001, 0}, {X, 582144, 20}, {X, 292784, 19},
	{Y, 73632, 18}, {LEAF, 0.0, 0}, {LEAF, 0.0, 0}, {LEAF, 0.0, 0}, {Y, 291060, 22}, {LEAF, 0.0, 0}, {X, 6590464, 26}, {Y, 1704064, 25}, {LEAF, 0.0, 0},
	{LEAF, 0.0, 0}, {LEAF, 0.0, 0}, {LEAF, -0.0041, 0}, {LEAF, -0.018, 0}, {TILES_64, 8.5, 37}, {W, 16640, 36}, {Y, 341040, 33}, {LEAF, 0.9277, 0},
	{X_PLANE, 7728.5, 35}, {LEAF, -0.6694, 0}, {LEAF, 0.1736, 0}, {LEAF, 0.9313, 0}, {X_PLANE, 2190, 39}, {LEAF, 5.2835, 0}, {LEAF, 1.7943, 0},
	{K, 391.5, 42}, {LEAF, -5.3593, 0}, {Y_PLANE, 72.5, 44}, {LEAF, -1.5798, 0}, {W, 14256, 46}, {LEAF, -3.0311, 0}, {LEAF, -3.9092, 0}
};
static const struct node float_last_largest_filter[] = {
	{GROUP_C, 10, 18}, {K, 112, 7}, {Y, 2809856, 6}, {WINDOW, 10, 5}, {LEAF, -1.3424, 0}, {LEAF, -0.0027, 0}, {LEAF, 0.6781, 0}, {W, 14256, 15},
	{WINDOW, 20.5, 14}, {K, 224, 11}, {LEAF, -1.9999, 0}, {Y, 1486848, 13}, {LEAF, -3.1114, 0}, {LEAF, -4.0212, 0}, {LEAF, -2.0476, 0}, {ROWS, 582, 17},
	{LEAF, 1.256, 0}, {LEAF, -0.5765, 0}, {ROWS, 496, 26}, {WINDOW, 2.5, 25}, {ROWS, 170, 24}, {X_PLANE, 5, 23}, {LEAF, 8.9923, 0}, {LEAF, 8.2976, 0},
	{LEAF, 7.4026, 0}, {LEAF, 3.6111, 0}, {GROUP_C, 88, 30}, {X_PLANE, 1988.5, 29}, {LEAF, 2.1746, 0}, {LEAF, -6.0, 0}, {ROWS, 2504, 36},
	{DEPTH, 264, 33}, {LEAF, 5.0027, 0}, {Y_PLANE, 104, 35}, {LEAF, 5.915, 0}, {LEAF, 6.5999, 0}, {TILES_64, 39, 44}, {W, 139264, 43}, {N, 12, 40},
	{LEAF, 5.457, 0}, {W, 48832, 42}, {LEAF, 2.8398, 0}, {LEAF, 4.333, 0}, {LEAF, -0.0033, 0}, {TILES_128, 68, 46}, {LEAF, 5.0883, 0}, {LEAF, 6.3963, 0}
};