"""A trained policy as files that run without offdyn: for NumPy alone, as ONNX, or as StableHLO."""

FORMATS = ("numpy", "onnx", "stablehlo")
