variable "lake_bucket" {
  description = "Name of the bucket that holds checkpoints and labels."
  type        = string
}

variable "audit_bucket" {
  description = "Name of the bucket that holds the warehouse and the report."
  type        = string
}

variable "lake_prefix" {
  description = "Where in its bucket the lake begins."
  type        = string
  default     = "lake"

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", var.lake_prefix))
    error_message = "The prefix is names parted by single slashes, without one at either end."
  }
}

variable "warehouse_prefix" {
  description = "Where in its bucket the warehouse begins."
  type        = string
  default     = "warehouse"

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", var.warehouse_prefix))
    error_message = "The prefix is names parted by single slashes, without one at either end."
  }
}

variable "label_retention_days" {
  description = "Labels are personal data: days after which a day's labels are deleted."
  type        = number
  default     = 90
}

variable "noncurrent_days" {
  description = "Days for which a replaced or deleted object can be brought back."
  type        = number
  default     = 30
}

variable "oidc_provider_arn" {
  description = "The cluster's identity provider in IAM."
  type        = string
}

variable "oidc_issuer" {
  description = "Its address without https://."
  type        = string
}

variable "service_account" {
  description = "Namespace and name of the service account of Ray's pods."
  type        = string
  default     = "privaudit:privaudit-audit"
}

variable "reader_principals" {
  description = "ARNs of who may read warehouse and report; nobody if empty."
  type        = list(string)
  default     = []
}
