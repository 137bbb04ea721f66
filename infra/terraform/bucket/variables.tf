variable "name" {
  description = "Name of the bucket."
  type        = string
}

variable "noncurrent_days" {
  description = "Days for which a replaced or deleted object can be brought back."
  type        = number
}

variable "expire" {
  description = "Days after which objects below a prefix are deleted, by prefix."
  type        = map(number)
}
