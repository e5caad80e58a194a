"""A small OpenVINO model written by hand."""

#: A model by hand: one convolution, whose weights lie in a file that is not there.
CONVOLUTION = """<?xml version="1.0"?>
<net name="one" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,3,8,8" element_type="f32"/>
<output><port id="0" precision="FP32" names="x"><dim>1</dim><dim>3</dim><dim>8</dim><dim>8</dim></port></output></layer>
<layer id="1" name="w" type="Const" version="opset1"><data element_type="f32" shape="4, 3, 3, 3" offset="0" size="432"/>
<output><port id="0" precision="FP32"><dim>4</dim><dim>3</dim><dim>3</dim><dim>3</dim></port></output></layer>
<layer id="2" name="y" type="Convolution" version="opset1">
<data strides="1, 1" dilations="1, 1" pads_begin="1, 1" pads_end="1, 1" auto_pad="explicit"/>
<input><port id="0" precision="FP32"><dim>1</dim><dim>3</dim><dim>8</dim><dim>8</dim></port>
<port id="1" precision="FP32"><dim>4</dim><dim>3</dim><dim>3</dim><dim>3</dim></port></input>
<output><port id="2" precision="FP32"><dim>1</dim><dim>4</dim><dim>8</dim><dim>8</dim></port></output></layer>
<layer id="3" name="r" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>1</dim><dim>4</dim><dim>8</dim><dim>8</dim></port></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges></net>
"""
