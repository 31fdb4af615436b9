"""The admission webhook of an existing cluster: the embedded API's defaults and rules, asked for over HTTPS."""
